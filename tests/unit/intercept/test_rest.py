"""The REST API: the spec's routes, what each asks of the proxy, and how each failure looks."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from pilothouse.core.origins import Doorkeeper
from pilothouse.intercept.json_body import MAX_BYTES
from pilothouse.intercept.model import EngineUnreachable
from pilothouse.intercept.ports import HistoryAsk, LogAsk
from pilothouse.intercept.rest import Service, rest_app
from pilothouse.server.call import parse_args
from pilothouse.server.edge import Guard
from tests.support.fake_interceptor import CATEGORIES, TOKEN, FakeInterceptor, exchange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

BEARER = {"authorization": f"Bearer {TOKEN}"}
EMPTY_CONFIG: dict[str, Any] = {name: [] for name in CATEGORIES}
ROUTES = [
    ("GET", "/mcp/tools"),
    ("GET", "/openapi.json"),
    ("GET", "/mcp/history"),
    ("GET", "/mcp/packet/1"),
    ("GET", "/mcp/configs"),
    ("PUT", "/mcp/configs"),
    ("POST", "/mcp/resend/1"),
    ("GET", "/mcp/logs"),
    ("POST", "/mcp/restore/backup_20250804_120000"),
]
each_route = pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda part: str(part))


def recorded() -> FakeInterceptor:
    return FakeInterceptor(details={n: exchange(n) for n in range(1, 4)})


@asynccontextmanager
async def client(
    fake: FakeInterceptor, headers: dict[str, str] | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    service = Service(
        interceptor=fake,
        parse=parse_args,
        tools_listing=lambda: [{"name": "get_history", "description": "x", "inputSchema": {}}],
        incident=lambda error: "1nc1dent",
    )
    app = rest_app(service, lambda inner: Guard(inner, Doorkeeper()))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=True)
    async with httpx.AsyncClient(
        transport=transport,
        base_url="http://127.0.0.1:32350",
        headers=BEARER if headers is None else headers,
    ) as made:
        yield made


async def ask(method: str, path: str, fake: FakeInterceptor, **request: Any) -> httpx.Response:
    async with client(fake) as http:
        return await http.request(method, path, **request)


def error(response: httpx.Response) -> tuple[int, int]:
    """HTTP status and the spec's code; the object is the same for all."""
    body = response.json()
    assert list(body) == ["error"]
    assert set(body["error"]) == {"code", "message", "data"}
    assert response.headers["content-type"] == "application/json"
    return response.status_code, body["error"]["code"]


# Tokens


@each_route
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer "},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {TOKEN.lower()}"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
    ],
    ids=repr,
)
async def test_every_route_needs_the_token(method: str, path: str, headers: dict[str, str]) -> None:
    fake = recorded()
    async with client(fake, headers) as http:
        response = await http.request(method, path, json=EMPTY_CONFIG)
    assert error(response) == (401, -32005)
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert fake.asked == []


async def test_two_tokens_are_none() -> None:
    async with client(recorded(), {}) as http:
        given = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")]
        response = await http.get("/mcp/history", headers=given)
    assert error(response) == (401, -32005)


async def test_the_token_is_judged_before_anything_else_is_read() -> None:
    async with client(recorded(), {}) as http:
        response = await http.put("/mcp/configs?what=1", content=b"{")
    assert error(response) == (401, -32005)


async def test_the_scheme_has_no_case() -> None:
    async with client(recorded(), {"authorization": f"bearer {TOKEN}"}) as http:
        assert (await http.get("/mcp/history")).status_code == 200


async def test_too_many_wrong_tokens_are_told_when_to_come_again() -> None:
    fake = recorded()
    fake.wrong_tokens = 1_000
    response = await ask("GET", "/mcp/history", fake)
    assert error(response) == (429, -32005)
    assert response.headers["retry-after"] == "13"


@each_route
async def test_read_only_refuses_what_changes_or_sends(method: str, path: str) -> None:
    fake = recorded()
    fake.read_only = True
    response = await ask(method, path, fake)
    if method == "GET":
        assert response.status_code == 200
    else:
        assert error(response) == (403, -32005)
        assert fake.asked == []


# Routes


async def test_the_history_shows_all_sessions() -> None:
    fake = recorded()
    response = await ask("GET", "/mcp/history", fake)
    body = response.json()
    assert [packet["id"] for packet in body["packets"]] == [3, 2, 1]
    assert body["order_applied"] == "id desc"
    assert fake.asked == [("history", HistoryAsk(session=None))]


async def test_the_history_takes_the_query_of_the_spec() -> None:
    fake = recorded()
    path = "/mcp/history?filter=url+%3D~+%2Fapi%2F&limit=2&offset=1&order=time+desc&fields=id,url"
    body = (await ask("GET", path, fake)).json()
    assert body["packets"] == [{"id": 2, "url": "/api/users"}, {"id": 1, "url": "/api/users"}]
    ((_, asked),) = fake.asked
    assert asked == HistoryAsk(
        limit=2, offset=1, filter="url =~ /api/", order="time desc", session=None
    )


async def test_a_list_may_be_given_with_commas_or_by_repeating() -> None:
    for path in ("/mcp/history?fields=id,url", "/mcp/history?fields=id&fields=url"):
        body = (await ask("GET", path, recorded())).json()
        assert list(body["packets"][0]) == ["id", "url"]


async def test_a_packet_is_shown_with_its_bodies_when_asked() -> None:
    body = (await ask("GET", "/mcp/packet/2?include_body=true&max_bytes=64", recorded())).json()
    assert body["id"] == 2
    assert body["body"] == {"request": "", "response": "{}"}


async def test_the_configuration_is_shown_by_categories() -> None:
    body = (await ask("GET", "/mcp/configs?categories=servers,listenPorts", recorded())).json()
    assert sorted(body) == ["listenPorts", "servers"]


@pytest.mark.parametrize(("query", "backup"), [("", True), ("?backup=false", False)])
async def test_the_configuration_is_the_body_of_a_put(query: str, backup: bool) -> None:
    fake = recorded()
    body = (await ask("PUT", f"/mcp/configs{query}", fake, json=EMPTY_CONFIG)).json()
    assert body["config_updated"] is True
    assert body["backup_created"] is backup
    assert fake.asked == [("update_config", (EMPTY_CONFIG, backup))]


@pytest.mark.parametrize(
    ("body", "count"), [(b"", 1), (b"{}", 1), (b'{"count": 3, "async": true}', 3)]
)
async def test_a_packet_is_sent_again(body: bytes, count: int) -> None:
    fake = recorded()
    answer = (await ask("POST", "/mcp/resend/2", fake, content=body)).json()
    assert answer["sent_count"] == count
    ((_, plan),) = fake.asked
    assert (plan["packet_id"], plan["count"]) == (2, count)


async def test_logs_are_read() -> None:
    fake = recorded()
    assert (await ask("GET", "/mcp/logs?level=warn&limit=5", fake)).json()["logs"] == []
    assert fake.asked == [("logs", LogAsk(level="warn", limit=5))]


async def test_a_backup_is_restored() -> None:
    body = (await ask("POST", "/mcp/restore/backup_20250804_120000", recorded())).json()
    assert body["config_restored"] is True


async def test_the_tools_are_listed() -> None:
    body = (await ask("GET", "/mcp/tools", recorded())).json()
    assert body["tools"][0]["name"] == "get_history"


async def test_answers_are_not_stored_by_anybody() -> None:
    response = await ask("GET", "/mcp/history", recorded())
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"


# Failures


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/mcp/history?filter=what", -32002),
        ("GET", "/mcp/history?limit=0", -32602),
        ("GET", "/mcp/history?limit=1001", -32602),
        ("GET", "/mcp/history?limit=1.0", -32602),
        ("GET", "/mcp/history?limit=%2010", -32602),
        ("GET", "/mcp/history?limit=10&limit=10", -32602),
        ("GET", "/mcp/history?limits=10", -32602),
        ("GET", "/mcp/history?all_sessions=false", -32602),
        ("GET", "/mcp/history?access_token=x", -32602),
        ("GET", "/mcp/history?fields=body", -32602),
        ("GET", "/mcp/history?order=size", -32602),
        ("GET", "/mcp/packet/one", -32602),
        ("GET", "/mcp/packet/1?include_body=yes", -32602),
        ("GET", "/mcp/configs?categories=filters", -32602),
        ("GET", "/mcp/logs?level=fatal", -32602),
        ("GET", "/mcp/tools?limit=1", -32602),
        ("PUT", "/mcp/configs?backup=1", -32602),
    ],
)
async def test_a_bad_request_is_told_by_the_code_of_the_tools(
    method: str, path: str, code: int
) -> None:
    response = await ask(method, path, recorded(), json=EMPTY_CONFIG)
    assert error(response) == (400, code)


@pytest.mark.parametrize("packet_id", ["9", "0", "-1", "9" * 40])
async def test_a_packet_that_is_not_there_is_404(packet_id: str) -> None:
    for method, path in (("GET", "/mcp/packet/"), ("POST", "/mcp/resend/")):
        assert error(await ask(method, path + packet_id, recorded())) == (404, -32003)


async def test_a_backup_that_is_not_there_is_404() -> None:
    fake = recorded()
    assert error(await ask("POST", "/mcp/restore/nothing", fake)) == (404, -32004)
    assert fake.asked == []


async def test_a_cursor_of_another_question_is_a_conflict() -> None:
    assert error(await ask("GET", "/mcp/history?cursor=abc", recorded())) == (409, -32602)


async def test_a_whole_number_may_be_written_with_a_point() -> None:
    fake = recorded()
    answer = await ask("POST", "/mcp/resend/1", fake, content=b'{"count": 2.0}')
    assert answer.json()["sent_count"] == 2


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"NaN", b'{"servers": Infinity}', b"[" * 100_000]
)
async def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    assert error(await ask("PUT", "/mcp/configs", recorded(), content=body)) == (400, -32700)


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("PUT", "/mcp/configs", [], -32602),
        ("PUT", "/mcp/configs", {"servers": []}, -32004),
        ("POST", "/mcp/resend/1", [], -32602),
        ("POST", "/mcp/resend/1", {"count": "3"}, -32602),
        ("POST", "/mcp/resend/1", {"count": True}, -32602),
        ("POST", "/mcp/resend/1", {"count": 1.5}, -32602),
        ("POST", "/mcp/resend/1", {"packet_id": 2}, -32602),
        ("POST", "/mcp/resend/1", {"access_token": TOKEN}, -32602),
        ("POST", "/mcp/resend/1", {"modifications": [{"type": "\ud800"}]}, -32602),
    ],
)
async def test_a_body_of_the_wrong_form_is_refused(
    method: str, path: str, body: Any, code: int
) -> None:
    fake = recorded()
    response = await ask(method, path, fake, content=json.dumps(body))
    assert error(response) == (400, code)


async def test_a_body_that_is_too_large_is_refused() -> None:
    fake = recorded()
    response = await ask("PUT", "/mcp/configs", fake, content=b" " * (MAX_BYTES + 1))
    assert error(response) == (413, -32600)
    assert fake.asked == []


async def test_a_body_of_the_largest_size_is_read() -> None:
    body = json.dumps(EMPTY_CONFIG).encode().ljust(MAX_BYTES)
    assert (await ask("PUT", "/mcp/configs", recorded(), content=body)).status_code == 200


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/mcp/history", "GET"),
        ("/mcp/configs", "GET, PUT"),
        ("/mcp/resend/1", "POST"),
        ("/openapi.json", "GET"),
    ],
)
@pytest.mark.parametrize("method", ["DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD"])
async def test_a_wrong_method_is_told_which_are_right(method: str, path: str, allowed: str) -> None:
    response = await ask(method, path, recorded())
    assert response.status_code == 405
    assert response.headers["allow"] == allowed
    assert method == "HEAD" or error(response) == (405, -32601)


@pytest.mark.parametrize(
    "path", ["/", "/mcp", "/mcp/", "/mcp/history/", "/mcp/packet/", "/mcp/packet/1/2", "/config"]
)
async def test_an_unknown_path_is_404(path: str) -> None:
    assert error(await ask("GET", path, recorded())) == (404, -32601)


async def test_a_backup_id_cannot_leave_its_place() -> None:
    fake = recorded()
    for path in ("..%2f..%2fetc%2fpasswd", "..", "%2e%2e", "backup_20250804_120000%00"):
        response = await ask("POST", f"/mcp/restore/{path}", fake)
        assert response.status_code == 404
    assert fake.asked == []


async def test_an_engine_that_does_not_answer_is_503() -> None:
    fake = recorded()

    async def gone(ask: HistoryAsk) -> Any:
        raise EngineUnreachable("the engine does not run")

    fake.history = gone  # type: ignore[method-assign]
    assert error(await ask("GET", "/mcp/history", fake)) == (503, -32001)


async def test_a_defect_of_ours_is_an_incident_and_tells_nothing_else() -> None:
    fake = recorded()

    async def broken(ask: HistoryAsk) -> Any:
        raise RuntimeError("password=hunter22")

    fake.history = broken  # type: ignore[method-assign]
    response = await ask("GET", "/mcp/history", fake)
    assert error(response) == (500, -32603)
    assert "1nc1dent" in response.text
    assert "hunter22" not in response.text


async def test_what_an_error_repeats_is_masked() -> None:
    response = await ask("GET", "/mcp/history?acces_token=x&token=Bearer%20abcdefgh", recorded())
    assert "abcdefgh" not in response.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 421), ({"origin": "http://evil.example"}, 403)],
)
async def test_foreign_hosts_and_origins_are_refused(headers: dict[str, str], status: int) -> None:
    response = await ask("GET", "/mcp/history", recorded(), headers=headers)
    assert response.status_code == status
