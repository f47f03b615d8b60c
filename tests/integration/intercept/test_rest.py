"""The REST API: the spec's routes, what each does, and how each failure looks."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from pilothouse.core.net.origins import OriginPolicy
from pilothouse.core.secrets.redactor import Redactor
from pilothouse.intercept.rest.app import RestService, rest_app
from pilothouse.intercept.rest.json_body import MAX_BYTES
from pilothouse.intercept.rest.openapi import document
from pilothouse.server.call import parse_args
from pilothouse.server.transports.edge import OriginGuard
from tests.support.intercepting import GUARD_S, App, Tap, config
from tests.support.servers import incidents
from tests.support.until import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = document()
BACKUP = "backup_20250804_120000"
ROUTES = [
    ("GET", "/mcp/tools"),
    ("GET", "/openapi.json"),
    ("GET", "/mcp/history"),
    ("GET", "/mcp/packet/1"),
    ("GET", "/mcp/configs"),
    ("PUT", "/mcp/configs"),
    ("POST", "/mcp/resend/1"),
    ("GET", "/mcp/logs"),
    ("POST", f"/mcp/restore/{BACKUP}"),
]
each_route = pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda part: str(part))


def client(tap: Tap, token: str | None = None, **more: Any) -> httpx.Client:
    headers = {"authorization": f"Bearer {tap.token if token is None else token}"}
    return httpx.Client(base_url=tap.rest, headers=headers, timeout=GUARD_S, **more)


@pytest.fixture(scope="module")
def recorded(tap: Tap, shop: App) -> Tap:
    """A proxy that recorded five exchanges: packets 1 to 10; tests send the first one again."""
    for path in ("/api/users", "/login?status=401", "/api/users", "/api/orders", "/api/orders"):
        tap.get(f"{shop.url}{path}")
    wait_until(lambda: len(tap.packets("status > 0")) == 10)
    return tap


@pytest.fixture
def rest(recorded: Tap) -> Iterator[httpx.Client]:
    """Its API."""
    with client(recorded) as made:
        yield made


def error(response: httpx.Response) -> tuple[int, int]:
    """HTTP status and the spec's code; the object is the same for all."""
    body = response.json()
    assert list(body) == ["error"]
    assert set(body["error"]) == {"code", "message", "data"}
    assert response.headers["content-type"] == "application/json"
    return response.status_code, body["error"]["code"]


# Tokens


@each_route
@pytest.mark.parametrize("offered", ["", "Bearer", "Basic {}", "{}"], ids=repr)
def test_every_route_needs_the_token(
    tap: Tap, rest: httpx.Client, method: str, path: str, offered: str
) -> None:
    before = tap.call("get_config")
    headers = {"authorization": offered.replace("{}", tap.token)}
    response = rest.request(method, path, json=config(1), headers=headers)
    assert error(response) == (401, -32005)
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert tap.call("get_config") == before


def test_near_misses_are_refused_alike(tap: Tap, rest: httpx.Client) -> None:
    token = tap.token
    answers = []
    for near in ("wrong", token[:-1], token.swapcase(), token + "x"):
        with client(tap, near) as stranger:
            answers.append(stranger.get("/mcp/history"))
    assert {error(answer) for answer in answers} == {(401, -32005)}
    assert len({answer.text for answer in answers}) == 1


def test_two_tokens_are_none(tap: Tap, rest: httpx.Client) -> None:
    given = [("authorization", f"Bearer {tap.token}")] * 2
    with httpx.Client(base_url=tap.rest) as twice:
        assert error(twice.get("/mcp/history", headers=given)) == (401, -32005)


def test_the_token_is_judged_before_anything_else_is_read(tap: Tap, rest: httpx.Client) -> None:
    with httpx.Client(base_url=tap.rest) as stranger:
        assert error(stranger.put("/mcp/configs?what=1", content=b"{")) == (401, -32005)


def test_the_scheme_has_no_case(tap: Tap, rest: httpx.Client) -> None:
    headers = {"authorization": f"bearer {tap.token}"}
    assert rest.get("/mcp/history", headers=headers).status_code == 200


def test_too_many_wrong_tokens_are_told_when_to_come_again() -> None:
    with Tap() as tap:
        tap.call("get_config")
        with client(tap, "wrong") as stranger:
            answers = [stranger.get("/mcp/history") for _ in range(11)]
    assert [error(answer) for answer in answers] == [(401, -32005)] * 10 + [(429, -32005)]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60


def test_read_only_refuses_what_changes_or_sends() -> None:
    with Tap("--read-only") as tap:
        tap.call("get_config")
        with client(tap) as rest:
            for method, path in ROUTES:
                response = rest.request(method, path)
                if method == "GET":
                    assert response.status_code in (200, 404)  # there are no packets
                else:
                    assert error(response) == (403, -32005)


# Routes


def test_the_history_takes_the_query_of_the_spec(rest: httpx.Client) -> None:
    query = "filter=url+%3D~+%2Fapi%2Fo&limit=2&offset=1&order=id+asc&fields=id,url"
    page = rest.get(f"/mcp/history?{query}").json()
    assert page["packets"] == [{"id": 8, "url": "/api/orders"}, {"id": 9, "url": "/api/orders"}]
    assert (page["total_count"], page["has_more"], page["order_applied"]) == (4, True, "id asc")


def test_a_list_may_be_given_with_commas_or_by_repeating(rest: httpx.Client) -> None:
    for query in ("fields=id,url", "fields=id&fields=url"):
        page = rest.get(f"/mcp/history?{query}").json()
        assert list(page["packets"][0]) == ["id", "url"]


def test_a_packet_is_shown_with_its_bodies_when_asked(rest: httpx.Client) -> None:
    plain = rest.get("/mcp/packet/2").json()
    whole = rest.get("/mcp/packet/2?include_body=true&max_bytes=64").json()
    assert (plain["id"], "body" in plain) == (2, False)
    assert json.loads(whole["body"]["response"])["path"] == "/api/users"


def test_the_configuration_is_shown_by_categories(rest: httpx.Client) -> None:
    shown = rest.get("/mcp/configs?categories=servers,listenPorts").json()
    assert sorted(shown) == ["listenPorts", "servers"]


@pytest.mark.parametrize(("query", "backup"), [("", True), ("?backup=false", False)])
def test_the_configuration_is_the_body_of_a_put(
    tap: Tap, rest: httpx.Client, query: str, backup: bool
) -> None:
    done = rest.put(f"/mcp/configs{query}", json=config(tap.port)).json()
    assert (done["config_updated"], done["backup_created"]) == (True, backup)
    if backup:
        backup_id = done["backup_info"]["backup_id"]
        restored = rest.post(f"/mcp/restore/{backup_id}").json()
        assert restored["backup_id_restored"] == backup_id


@pytest.mark.parametrize(
    ("body", "count"), [(b"", 1), (b"{}", 1), (b'{"count": 3}', 3), (b'{"count": 2.0}', 2)]
)
def test_a_packet_is_sent_again(rest: httpx.Client, shop: App, body: bytes, count: int) -> None:
    before = len(shop.seen)
    answer = rest.post("/mcp/resend/1", content=body).json()
    assert answer["sent_count"] == count
    assert [one["path"] for one in shop.seen[before:]] == ["/api/users"] * count


def test_answers_are_not_stored_by_anybody(rest: httpx.Client) -> None:
    response = rest.get("/mcp/history")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"


# The document


@pytest.mark.parametrize(
    ("method", "path", "url", "body"),
    [
        ("GET", "/mcp/tools", "/mcp/tools", None),
        ("GET", "/openapi.json", "/openapi.json", None),
        ("GET", "/mcp/history", "/mcp/history?limit=1", None),
        ("GET", "/mcp/history", "/mcp/history?limit=0", None),
        ("GET", "/mcp/packet/{packet_id}", "/mcp/packet/1?include_body=true&max_bytes=64", None),
        ("GET", "/mcp/packet/{packet_id}", "/mcp/packet/9999", None),
        ("GET", "/mcp/configs", "/mcp/configs?listeners=true", None),
        ("PUT", "/mcp/configs", "/mcp/configs", {}),
        ("POST", "/mcp/resend/{packet_id}", "/mcp/resend/1", {"count": 2}),
        ("GET", "/mcp/logs", "/mcp/logs", None),
        ("POST", "/mcp/restore/{backup_id}", "/mcp/restore/none", None),
    ],
)
def test_every_answer_is_as_the_document_says(
    rest: httpx.Client, method: str, path: str, url: str, body: Any
) -> None:
    response = rest.request(method, url, json=body)
    told = DOCUMENT["paths"][path][method.lower()]["responses"][str(response.status_code)]
    schema = {**told["content"]["application/json"]["schema"], "components": DOCUMENT["components"]}
    Draft202012Validator(schema).validate(response.json())


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
def test_a_bad_request_is_told_by_the_code_of_the_tools(
    rest: httpx.Client, method: str, path: str, code: int
) -> None:
    assert error(rest.request(method, path, json=config(1))) == (400, code)


@pytest.mark.parametrize("packet_id", ["9999", "0", "-1", "9" * 40])
def test_a_packet_that_is_not_there_is_404(rest: httpx.Client, packet_id: str) -> None:
    assert error(rest.get(f"/mcp/packet/{packet_id}")) == (404, -32003)
    assert error(rest.post(f"/mcp/resend/{packet_id}")) == (404, -32003)


def test_a_cursor_of_another_question_is_a_conflict(rest: httpx.Client) -> None:
    assert error(rest.get("/mcp/history?cursor=abc")) == (409, -32602)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"NaN", b'{"servers": Infinity}', b"[" * 100_000],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_not_json_is_refused(rest: httpx.Client, body: bytes) -> None:
    assert error(rest.put("/mcp/configs", content=body)) == (400, -32700)


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
        ("POST", "/mcp/resend/1", {"access_token": "x"}, -32602),
        ("POST", "/mcp/resend/1", {"modifications": [{"type": "\ud800"}]}, -32602),
    ],
)
def test_a_body_of_the_wrong_form_is_refused(
    rest: httpx.Client, method: str, path: str, body: Any, code: int
) -> None:
    assert error(rest.request(method, path, content=json.dumps(body))) == (400, code)


def test_a_body_is_read_up_to_the_largest_size(tap: Tap, rest: httpx.Client) -> None:
    largest = json.dumps(config(tap.port)).encode().ljust(MAX_BYTES)
    assert rest.put("/mcp/configs", content=largest).status_code == 200
    assert error(rest.put("/mcp/configs", content=largest + b" ")) == (413, -32600)


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
def test_a_wrong_method_is_told_which_are_right(
    rest: httpx.Client, method: str, path: str, allowed: str
) -> None:
    response = rest.request(method, path)
    assert response.status_code == 405
    assert response.headers["allow"] == allowed
    assert method == "HEAD" or error(response) == (405, -32601)


@pytest.mark.parametrize(
    "path", ["/", "/mcp", "/mcp/", "/mcp/history/", "/mcp/packet/", "/mcp/packet/1/2", "/config"]
)
def test_an_unknown_path_is_404(rest: httpx.Client, path: str) -> None:
    assert error(rest.get(path)) == (404, -32601)


@pytest.mark.parametrize(
    "path",
    [
        "nothing",
        BACKUP,
        f"{BACKUP}%00",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e",
        "..",
        "%2fetc%2fpasswd",
        "..%5c..%5cetc",
        f"..%2fbackups%2f{BACKUP}",
    ],
)
def test_a_backup_id_cannot_leave_its_place(tap: Tap, rest: httpx.Client, path: str) -> None:
    before = tap.call("get_config")
    assert rest.post(f"/mcp/restore/{path}").status_code == 404
    assert tap.call("get_config") == before


def test_an_engine_that_cannot_start_is_503() -> None:
    with Tap() as tap:
        folder = tap.home / "intercept" / "ca"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("in the way")
        tap.call("get_config")
        with client(tap) as rest:
            assert error(rest.put("/mcp/configs", json=config(tap.port))) == (503, -32001)


@pytest.mark.anyio
async def test_a_defect_of_ours_is_an_incident_and_tells_nothing_else() -> None:
    class Broken:
        redactor = Redactor()

        async def admit(self, token: str | None, *, writes: bool = False) -> None:
            raise RuntimeError("password=hunter22")

    service = RestService(
        interceptor=Broken(),  # type: ignore[arg-type]
        parse=parse_args,
        tools_listing=list,
        incident=lambda error: "1nc1dent",
    )
    app = rest_app(service, lambda inner: OriginGuard(inner, OriginPolicy()))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:32350"
    ) as broken:
        response = await broken.get("/mcp/history")
    assert error(response) == (500, -32603)
    assert "1nc1dent" in response.text
    assert "hunter22" not in response.text


def test_what_an_error_repeats_is_masked(rest: httpx.Client) -> None:
    response = rest.get("/mcp/history?acces_token=x&token=Bearer%20abcdefgh")
    assert "abcdefgh" not in response.text


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example"}, 421), ({"origin": "http://evil.example"}, 403)],
)
def test_foreign_hosts_and_origins_are_refused(
    rest: httpx.Client, headers: dict[str, str], status: int
) -> None:
    assert rest.get("/mcp/history", headers=headers).status_code == status


def test_a_body_that_breaks_off_is_no_incident(tap: Tap, rest: httpx.Client) -> None:
    head = f"PUT /config HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {tap.token}\r\n"
    with socket.create_connection(("127.0.0.1", int(tap.rest.rpartition(":")[2]))) as raw:
        raw.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\nno chunk\r\n")
        assert raw.recv(4096).startswith(b"HTTP/1.1 400")
    assert rest.get("/openapi.json").status_code == 200
    assert incidents(tap.log().splitlines()) == []
