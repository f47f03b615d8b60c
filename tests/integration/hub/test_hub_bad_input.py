"""What a hostile or broken client may send to the hub, and the answer it gets."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import psutil
import pytest

from tests.integration.test_edge import ODD_MESSAGES, OTHER_KINDS, OWN_KINDS
from tests.support.http_agent import BOTH
from tests.support.relaying import Home, pretending
from tests.support.servers import PRODUCT, Server, http_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

JSON = ("application/json",)
PATHS = ("/mcp", "/mcp/window", "/message")
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
ERAS: dict[str, dict[str, str]] = {"2025": {}, "2026": MODERN}
GUARD_CPU_S = 1.0
"""Five times what it may cost; what it does cost is a benchmark."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with http_server(module=PRODUCT) as server:
        yield server


def post(
    hub: Server,
    body: bytes,
    path: str = "/mcp",
    kinds: Sequence[str] = JSON,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    given = [*(("content-type", kind) for kind in kinds), *BOTH.items(), *(headers or {}).items()]
    return httpx.post(f"{hub.url}{path}", content=body, headers=given, timeout=60)


@contextmanager
def processor_time(hub: Server) -> Iterator[list[float]]:
    """Give the seconds that the hub worked while the block ran, once it has ended."""
    taken: list[float] = []
    process = psutil.Process(hub.process.pid)
    before = process.cpu_times()
    yield taken
    after = process.cpu_times()
    taken.append(after.user + after.system - before.user - before.system)


@pytest.mark.parametrize("case", ODD_MESSAGES)
@pytest.mark.parametrize("era", ERAS)
def test_odd_json_gets_a_valid_error(hub: Server, case: str, era: str) -> None:
    for path in PATHS:
        got = post(hub, ODD_MESSAGES[case], path, headers=ERAS[era])
        answer: dict[str, Any] = got.json()
        assert got.status_code == 400
        assert answer["jsonrpc"] == "2.0"
        assert answer["id"] in (None, 1)
        assert answer["error"]["code"] in (-32700, -32600)
        assert answer["error"]["message"]
    assert hub.incidents() == []


@pytest.mark.parametrize("era", ERAS)
def test_only_json_is_taken_with_any_parameters(hub: Server, era: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    for path in PATHS:
        for case, kinds in OTHER_KINDS.items():
            got = post(hub, body, path, kinds, ERAS[era])
            assert (got.status_code, got.json()["error"]["code"]) == (415, -32600), case
            assert "Content-Type must be application/json; " in got.json()["error"]["message"]
        for kind in OWN_KINDS:
            got = post(hub, body, path, [kind], ERAS[era])
            # Neither an envelope nor a session: it was read, and is refused for that, if at all.
            assert got.status_code in (200, 400), kind
            assert "Content-Type" not in got.text


def test_many_values_cost_the_hub_little(hub: Server) -> None:
    with processor_time(hub) as taken:
        for era in ERAS.values():
            got = post(hub, ODD_MESSAGES["many keys"], headers=era)
            assert got.status_code == 400
            assert "more than 50,000 values" in got.json()["error"]["message"]
    assert taken[0] / len(ERAS) < GUARD_CPU_S


def test_a_page_of_the_other_scheme_is_foreign(hub: Server) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    own = hub.url.removeprefix("http://")
    for path in ("/", "/mcp", "/message", "/health"):
        for origin in (f"https://{own}", "https://localhost", "https://127.0.0.1"):
            assert post(hub, body, path, headers={"origin": origin}).status_code == 403
            got = httpx.get(f"{hub.url}{path}", headers={"origin": origin})
            assert got.status_code == 403, (path, origin)
        assert post(hub, body, path, headers={"origin": f"http://{own}"}).status_code != 403


def test_a_relay_answers_what_is_no_message_itself(sockets: Path, mark: str) -> None:
    home = Home(sockets, mark)
    with pretending(home) as pretended, home.raw() as client:
        relay = pretended.relay()
        client.initialize()
        for case, raw in ODD_MESSAGES.items():
            if not raw:
                continue  # an empty line is nothing to answer
            client.send(raw)
            answer = client.receive()
            assert answer["error"]["code"] in (-32700, -32600), case
            assert answer["id"] in (None, 1), case
        # The next one is served, and is the first that anybody else hears of.
        client.send_request("tools/call", {"name": "status", "arguments": {}}, 7)
        assert relay.hear()["worker"] is True
