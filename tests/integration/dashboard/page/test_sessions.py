"""Who works here: sessions appear and go, with what each of them runs, for whoever may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.dashboard import board, product, shopping
from tests.support.http_agent import HttpAgent
from tests.support.issuer import Issuer
from tests.support.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

    from tests.support.servers import Server

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with product() as (running, _):
        yield running


def test_a_session_appears_with_its_first_call_and_goes_with_its_end(
    server: Server, browser: Browser
) -> None:
    with board(browser, server.url) as seen:
        expect(seen.page.get_by_text("No agent is connected").first).to_be_visible()
        ended = seen.ended.count()
        ann = HttpAgent(server.url).open()
        ann.call("status")
        expect(seen.sessions).to_have_count(1)
        expect(seen.sessions.first).to_contain_text("tester")
        ben = HttpAgent(server.url).open()
        ben.call("status")
        expect(seen.sessions).to_have_count(2)
        assert ann.end() in (200, 202, 204)
        expect(seen.sessions).to_have_count(1)
        assert ben.end() in (200, 202, 204)
        expect(seen.sessions).to_have_count(0)
        expect(seen.ended).to_have_count(ended + 2)
        assert seen.troubles == []


def test_a_session_shows_its_app_and_each_agent_only_its_own_rows(
    server: Server, browser: Browser
) -> None:
    ann = shopping(server.url)
    with board(browser, server.url) as seen, Site() as site:
        expect(seen.sessions.first).to_contain_text("localhost:")
        expect(seen.sessions.first).to_contain_text("1 failure")
        expect(seen.page.get_by_role("tab", name="Failures")).to_contain_text("1")
        expect(seen.rows.filter(has_text="said in anger").first).to_be_visible()
        ben = HttpAgent(server.url).open()
        ben.call("startSession", url=site.url("/console"))
        ben.call("navigate", url=site.url("/console"))
        expect(seen.sessions).to_have_count(2)
        other = seen.sessions.filter(has_text=site.url("/").split("//")[1].rstrip("/"))
        other.click()
        expect(other).to_have_attribute("aria-current", "true")
        expect(seen.rows.first).to_be_visible()
        expect(seen.rows.filter(has_text="said in anger")).to_have_count(0)
        # The address names what is shown, so that a reload and a second window show the same.
        address = seen.page.url
        seen.page.reload()
        expect(other).to_have_attribute("aria-current", "true")
        assert seen.page.url == address
        ben.end()
    ann.end()


def test_what_an_ended_session_left_stays_readable(server: Server, browser: Browser) -> None:
    ann = shopping(server.url)
    with board(browser, server.url) as seen:
        said = seen.rows.filter(has_text="said in anger").first
        expect(said).to_be_visible()
        ann.end()
        expect(seen.page.get_by_text("Session ended")).to_be_visible()
        expect(said).to_be_visible()


def test_the_page_goes_on_by_itself_when_the_server_comes_back(browser: Browser) -> None:
    with product() as (first, _):
        with board(browser, first.url) as seen:
            expect(seen.page.get_by_role("status").filter(has_text="Live")).to_be_visible()
            first.process.terminate()
            first.process.wait(30)
            expect(seen.page.get_by_text("Reconnecting")).to_be_visible()
            with product("--port", str(first.port)):
                expect(seen.page.get_by_role("status").filter(has_text="Live")).to_be_visible()


# Where tokens decide who calls, the page asks for one before it shows anything


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
