"""The dashboard's packet views: behind the intercept token, and as the REST API answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from pilothouse.core.secrets.check import MAX_FAILURES
from tests.integration.dashboard.conftest import Relayed
from tests.support.intercepting import app, token_of
from tests.support.servers import PRODUCT, http_server
from tests.support.until import wait_until
from tests.support.watching import Onlooker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def token(home: str) -> str:
    return token_of(Path(home))


@pytest.fixture(scope="module")
def recorded(hub: Server, home: str) -> Iterator[str]:
    """The id of an agent whose browser's traffic is in the history."""
    with app() as shop, Relayed(home) as agent:
        agent.call("startSession", url=shop.url, intercept=True)
        agent.call("navigate", url="/page")
        page = Onlooker(hub.url)
        yield page.agent(agent.pid)["id"]
        page.close()
        agent.leave()


@pytest.mark.parametrize("path", ["packets", "packets/1", "filter"])
def test_without_a_token_nothing_is_told_but_how_to_get_it(onlooker: Onlooker, path: str) -> None:
    answer = onlooker.get(path, text="status == 1")
    assert answer.status_code == 401
    error = answer.json()["error"]
    assert error["code"] == -32005
    assert "pilothouse token" in error["data"]["hint"]
    assert "X-Intercept-Token" in error["data"]["hint"]


def test_packets_are_listed_filtered_and_shown_whole(
    hub: Server, recorded: str, token: str, onlooker: Onlooker
) -> None:
    page = Onlooker(hub.url, **{"X-Intercept-Token": token})
    found = wait_until(
        lambda: [
            one
            for one in page.json("packets", filter="url == /page", limit=10)["packets"]
            if one["status"]
        ]
    )
    first = page.json("packets", limit=1)
    assert first["has_more"]
    second = page.json("packets", limit=1, after=first["next_cursor"])
    assert second["packets"][0]["id"] < first["packets"][0]["id"]
    detail = page.json(f"packets/{found[0]['id']}", include_body="true")
    assert detail["url"] == "/page"
    assert detail["body"]["response"]
    assert page.error(404, "packets/99999999")["code"] == -32003
    wrong = page.error(400, "packets", filter="status == (")
    assert wrong["code"] == -32002
    assert isinstance(wrong["data"]["position"], int)
    assert page.error(400, "filter", text="status ==")["code"] == -32002
    assert page.json("filter", text="status == 200")["filter"] == "status == 200"
    assert page.error(400, "packets", nonsense="1")["code"] == -32602
    with onlooker.watch(recorded) as watch:
        row = watch.until(lambda row: row["lane"] == "packets" and row["url"] == "/page")
    assert row["key"].startswith("packet:")
    page.close()


def test_packets_cannot_be_sent_or_changed_from_the_page(hub: Server, token: str) -> None:
    headers = {"X-Intercept-Token": token}
    for method in ("POST", "PUT", "DELETE"):
        for path in ("packets", "packets/1", "filter"):
            refused = httpx.request(method, f"{hub.url}/api/{path}", headers=headers)
            assert refused.status_code == 405


def test_wrong_tokens_are_refused_and_cannot_be_tried_out() -> None:
    env = {"PILOTHOUSE_REST_PORT": "0", "PILOTHOUSE_CONFIG_PORT": "0"}
    with http_server(module=PRODUCT, env=env) as hub:  # of its own: it lets nobody in after that
        page = Onlooker(hub.url, **{"X-Intercept-Token": "A" * 20})
        for _ in range(MAX_FAILURES):
            assert page.error(401, "packets")["code"] == -32005
        refused = page.get("packets")
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        page.close()
