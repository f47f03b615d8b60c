"""The dashboard's page and its API over HTTP: what is served, to whom, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx
import pytest

from pilothouse.dashboard.api import MOST_PAGES
from tests.support.http_agent import HttpAgent
from tests.support.issuer import Issuer
from tests.support.servers import PRODUCT, Server, http_server
from tests.support.until import wait_until
from tests.support.watching import Onlooker

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = ("overview", "stream", "moment", "body", "viewport", "file", "packets", "packets/1",
         "filter", "nowhere")  # fmt: skip


@pytest.fixture(scope="module")
def alone() -> Iterator[Server]:
    with http_server("--standalone", module=PRODUCT) as server:
        yield server


@pytest.fixture(params=["hub", "standalone"])
def url(request: pytest.FixtureRequest, hub: Server, alone: Server) -> str:
    return hub.url if request.param == "hub" else alone.url


def test_the_page_runs_only_scripts_of_its_own_and_holds_no_data(url: str) -> None:
    page = httpx.get(url)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-store"
    policy = page.headers["content-security-policy"]
    for rule in ("default-src 'none'", "script-src 'self'", "style-src 'self'",
                 "connect-src 'self'", "frame-ancestors 'none'"):  # fmt: skip
        assert rule in policy
    assert "unsafe" not in policy
    assert "<title>Pilothouse" in page.text


@pytest.mark.parametrize(
    "path",
    ["/assets/none.js", "/assets/", "/assets/../index.html", "/assets/%2e%2e/index.html",
     "/assets/..%2f..%2fapi.py", "/assets//etc/passwd", "/assets/%2fetc%2fpasswd"],
)  # fmt: skip
def test_only_what_was_built_is_an_asset(url: str, path: str) -> None:
    with httpx.Client(base_url=url) as client:
        request = client.build_request("GET", "/")
        request.url = request.url.copy_with(raw_path=path.encode())
        assert client.send(request).status_code == 404


@pytest.mark.parametrize("path", PATHS)
def test_foreign_hosts_and_origins_are_refused_on_every_path(url: str, path: str) -> None:
    for headers, status in (
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ):
        refused = httpx.get(f"{url}/api/{path}", headers=headers)
        assert refused.status_code == status, path
        assert "error" in refused.json()


@pytest.mark.parametrize("path", ["overview", "stream", "moment", "viewport", "file"])
def test_what_another_site_embeds_is_refused_though_it_comes_without_an_origin(
    url: str, path: str
) -> None:
    for site in ("cross-site", "same-site"):
        refused = httpx.get(f"{url}/api/{path}", headers={"sec-fetch-site": site})
        assert refused.status_code == 403
        assert refused.headers["cross-origin-resource-policy"] == "same-origin"
        assert refused.json()["error"]["code"] == "permission_denied"
    own = httpx.get(f"{url}/api/overview", headers={"sec-fetch-site": "same-origin"})
    assert own.status_code == 200


@pytest.mark.parametrize("path", ["overview", "moment", "stream", "nowhere"])
def test_nothing_is_changed_through_the_api(url: str, path: str) -> None:
    for method in ("POST", "PUT", "DELETE", "HEAD"):
        refused = httpx.request(method, f"{url}/api/{path}")
        assert refused.status_code == 405
        assert refused.headers["allow"] == "GET"


def test_mistakes_are_answered_with_what_to_do(url: str) -> None:
    page = Onlooker(url)
    for status, code, path, query in (
        (404, "no_such_path", "nowhere", {}),
        (400, "invalid_input", "moment", {}),
        (400, "invalid_input", "moment", {"agent": "x"}),
        (400, "invalid_input", "stream", {"cursor": "zzz"}),
        (404, "no_such_agent", "stream", {"agent": "x"}),
        (404, "no_such_agent", "moment", {"agent": "x", "id": "step:0"}),
        (404, "no_such_agent", "body", {"agent": "x", "req": "1"}),
        (404, "no_such_agent", "viewport", {"agent": "x", "app": "1"}),
        (404, "no_such_agent", "file", {"agent": "x", "app": "1", "name": "dossier-1.html"}),
    ):
        error = page.error(status, path, **query)
        assert error["code"] == code, path
        assert error["message"]
        assert error["hint"]
    page.close()


def test_a_process_without_a_hub_shows_its_sessions_and_their_rows(alone: Server) -> None:
    page, agent = Onlooker(alone.url), HttpAgent(alone.url).open()
    agent.call("status")
    (id,) = wait_until(page.agents)
    assert page.agents()[id]["state"] == "live"
    assert page.agents()[id]["pid"] == alone.process.pid
    with page.watch(id) as watch:
        watch.until(lambda row: row["key"] == "call:0")
        agent.call("status")
        assert watch.until(lambda row: row["key"] == "call:1")["lane"] == "other"
        agent.end()
        assert watch.next("gone") == {"agent": id}
    assert agent.session not in str(watch.rows), "whoever has the id has the session"
    page.close()


def test_where_no_agent_is_live_a_page_has_the_overview_alone() -> None:
    with http_server("--standalone", module=PRODUCT) as server:
        page = Onlooker(server.url)
        with page.watch("*") as watch:
            assert watch.next("overview")["sessions"] == []
        page.close()


def test_there_is_room_for_so_many_pages_and_a_closed_one_makes_some(alone: Server) -> None:
    page = Onlooker(alone.url)
    watches = [page.watch() for _ in range(MOST_PAGES)]
    assert page.error(503, "stream")["code"] == "too_many_pages"
    watches[0].__exit__()

    def reopened() -> bool:
        with httpx.stream("GET", f"{alone.url}/api/stream") as answer:
            return answer.status_code == 200

    wait_until(reopened)
    for watch in watches[1:]:
        watch.__exit__()
    page.close()


@pytest.fixture(scope="module")
def guarded() -> Iterator[tuple[Server, Issuer]]:
    with Issuer() as issuer:
        env = {
            "OAUTH_ISSUER": issuer.url,
            "OAUTH_AUDIENCE": issuer.audience,
            "OAUTH_JWKS_URL": issuer.jwks_url,
        }
        with http_server(module=PRODUCT, env=env) as server:
            yield server, issuer


def test_with_oauth_the_empty_page_is_open_and_the_api_needs_a_token(
    guarded: tuple[Server, Issuer],
) -> None:
    server, issuer = guarded
    assert httpx.get(server.url).status_code == 200
    assert httpx.get(f"{server.url}/assets/none.js").status_code == 404
    for path in PATHS:
        for token in ("", "Bearer wrong"):
            headers = {"authorization": token} if token else {}
            assert httpx.get(f"{server.url}/api/{path}", headers=headers).status_code == 401
    page = Onlooker(server.url, authorization=f"Bearer {issuer.mint()}")
    assert page.json("overview")["sessions"] == []
    with page.watch() as watch:
        assert watch.next("overview")["sessions"] == []
    assert page.error(401, "packets")["message"] == "the access token is missing"
    page.close()
