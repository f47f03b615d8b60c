"""Where tokens decide who calls, the page asks for one before it shows anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import board, product, shopping
from tests.support.http_agent import HttpAgent
from tests.support.issuer import Issuer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.servers import Server

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture(scope="module")
def guarded(issuer: Issuer) -> Iterator[Server]:
    env = {
        "OAUTH_ISSUER": issuer.url,
        "OAUTH_AUDIENCE": issuer.audience,
        "OAUTH_JWKS_URL": issuer.jwks_url,
    }
    with product(**env) as (server, _):
        yield server


def test_nothing_is_shown_before_a_good_token_was_given(
    guarded: Server, issuer: Issuer, browser: Browser
) -> None:
    agent = HttpAgent(guarded.url, token=issuer.mint()).open()
    agent.call("status")
    with board(browser, guarded.url) as seen:
        expect(seen.page.get_by_text("asks for an access token")).to_be_visible()
        expect(seen.sessions).to_have_count(0)
        field = seen.page.get_by_label("Token")
        field.fill("opaque")
        field.press("Enter")
        expect(seen.page.get_by_role("alert")).not_to_be_empty()
        expect(seen.sessions).to_have_count(0)
        field.fill(issuer.mint())
        field.press("Enter")
        expect(seen.sessions).to_have_count(1)
        expect(seen.page.get_by_role("status").filter(has_text="Live")).to_be_visible()
        assert seen.foreign() == []
        assert seen.violations() == []
    agent.end()


def test_a_dossier_is_shown_in_its_own_style_to_whoever_has_a_token(
    guarded: Server, issuer: Issuer, browser: Browser
) -> None:
    agent = shopping(guarded.url, token=issuer.mint())
    with board(browser, guarded.url, "#failures") as seen:
        field = seen.page.get_by_label("Token")
        field.fill(issuer.mint())
        field.press("Enter")
        seen.show("Failures")
        causes = seen.page.frame_locator("iframe").locator("section").first
        expect(causes).to_be_visible()
        assert causes.evaluate("it => getComputedStyle(it).borderTopStyle") == "solid"
        assert seen.violations() == []
        assert seen.troubles == [] or all("401" in said for said in seen.troubles)
    agent.end()
