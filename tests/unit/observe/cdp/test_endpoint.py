"""Finding a browser: only on this machine, in every spelling, whatever answers on the port."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pilothouse.observe.cdp import endpoint
from pilothouse.observe.cdp.endpoint import MAX_ANSWER_BYTES, find_endpoint, profile_folders
from pilothouse.observe.model import BrowserUnreachable, SecurityBlocked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    type Answer = Callable[[int], bytes]

pytestmark = pytest.mark.anyio

GUARD_S = 30
NO_PROFILES = {"HOME": "/nonexistent"}
PATH = "/devtools/browser/6b3c"

NOT_LOOPBACK = """
0.0.0.0 0 00.00 :: [::] 0:0:0:0:0:0:0:0 10.0.0.1 10.1 012.0.0.1 0x0a000001 0xa.0.0.1 167772161
172.16.0.1 192.168.1.1 192.168.257 3232235777 169.254.169.254 0xA9FEA9FE 100.64.0.1 8.8.8.8
134744072 126.255.255.255 128.0.0.1 224.0.0.1 255.255.255.255 ::ffff:10.0.0.1 [::ffff:a00:1]
::ffff:0.0.0.0 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: fe80::1 fc00::1 fd12::1 2001:db8::1
2606:4700::1111 \uff11\uff10.0.0.1 10\u30020\u30020\u30021
""".split()


async def find(
    host: str, port: int, environ: dict[str, str] | None = None, *, local_only: bool = True
) -> str:
    async with asyncio.timeout(GUARD_S):
        found = await find_endpoint(
            host, port, local_only=local_only, environ=environ or NO_PROFILES
        )
    assert (found.host, found.port) == (host, port)
    return found.url


def http(body: bytes, status: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n\r\n".encode() + body


def version(url: str) -> bytes:
    return http(json.dumps({"Browser": "Chrome/150", "webSocketDebuggerUrl": url}).encode())


@asynccontextmanager
async def answering(*parts: bytes | Answer, hang: bool = False) -> AsyncIterator[int]:
    """The port of a server that answers anything with these parts, one after the other."""
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = writer.get_extra_info("sockname")[1]
        try:
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part if isinstance(part, bytes) else part(port))
                await writer.drain()
                await asyncio.sleep(0.01)  # so that each part is a segment of its own
            if hang:
                await over.wait()
        except (OSError, EOFError):
            pass  # the client had read enough
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        over.set()


def browser(port: int) -> bytes:
    return version(f"ws://127.0.0.1:{port}{PATH}")


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Every name resolves to these, as a DNS server of the attacker would have it."""

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]
        return [(f, 1, 6, "", (a, port)) for f, a in zip(families, addresses, strict=True)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize("host", NOT_LOOPBACK)
async def test_a_host_that_is_not_this_machine_is_refused_in_every_spelling(host: str) -> None:
    with pytest.raises(SecurityBlocked) as caught:
        await find(host, 9222)
    assert "CDP_SECURITY_LOCALONLY" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        ("evil.test", ["10.0.0.1"]),
        ("localhost.evil.test", ["8.8.8.8"]),
        ("127.0.0.1.nip.test", ["192.168.1.1"]),
        ("both.test", ["127.0.0.1", "10.0.0.1"]),
        ("both6.test", ["::1", "fe80::1"]),
        ("mapped.test", ["::ffff:169.254.169.254"]),
    ],
)
async def test_a_name_is_judged_by_all_its_addresses(
    monkeypatch: pytest.MonkeyPatch, name: str, addresses: list[str]
) -> None:
    resolve_to(monkeypatch, *addresses)
    with pytest.raises(SecurityBlocked):
        await find(name, 9222)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "::ffff:127.0.0.1"])
async def test_this_machine_is_found_in_every_spelling(host: str) -> None:
    async with answering(browser) as port:
        url = await find(host, port)
    assert url.startswith("ws://")
    assert url.endswith(f":{port}{PATH}")


async def test_a_name_of_two_addresses_is_tried_at_both(monkeypatch: pytest.MonkeyPatch) -> None:
    # localhost is ::1 first on most machines, while Chrome listens on 127.0.0.1 alone.
    resolve_to(monkeypatch, "::1", "127.0.0.1")
    async with answering(browser) as port:
        assert await find("localhost", port) == f"ws://127.0.0.1:{port}{PATH}"


@pytest.mark.parametrize(
    "pointed",
    [
        "ws://10.0.0.1:{port}/devtools/browser/x",
        "ws://evil.test:{port}/devtools/browser/x",
        "ws://127.0.0.1:1/devtools/browser/x",
        "ws://127.0.0.1/devtools/browser/x",
        "ws://127.0.0.1@10.0.0.1:{port}/devtools/browser/x",
        "ws://localhost.evil.test:{port}/devtools/browser/x",
        "ws://[::ffff:10.0.0.1]:{port}/devtools/browser/x",
        "ws://0.0.0.0:{port}/devtools/browser/x",
        "ws:///devtools/browser/x",
        "/devtools/browser/x",
    ],
)
async def test_an_answer_that_points_elsewhere_is_refused(pointed: str) -> None:
    async with answering(lambda port: version(pointed.format(port=port))) as port:
        with pytest.raises(SecurityBlocked):
            await find("127.0.0.1", port)


@pytest.mark.parametrize("named", ["127.0.0.1", "localhost", "[::1]", "127.0.0.2"])
async def test_an_answer_that_points_to_this_machine_is_taken_at_the_asked_address(
    named: str,
) -> None:
    async with answering(lambda port: version(f"ws://{named}:{port}{PATH}")) as port:
        assert await find("127.0.0.1", port) == f"ws://127.0.0.1:{port}{PATH}"


async def test_where_any_host_is_allowed_the_connection_still_goes_to_the_asked_one() -> None:
    async with answering(version(f"ws://inside-a-container:9222{PATH}")) as port:
        url = await find("127.0.0.1", port, local_only=False)
    assert url == f"ws://127.0.0.1:{port}{PATH}"


async def test_an_answer_in_pieces_without_a_length_is_read_to_its_end() -> None:
    def head(port: int) -> bytes:
        return b"HTTP/1.0 200 OK\r\n\r\n" + browser(port).split(b"\r\n\r\n")[1][:20]

    def rest(port: int) -> bytes:
        return browser(port).split(b"\r\n\r\n")[1][20:]

    async with answering(head, rest) as port:
        assert (await find("127.0.0.1", port)).endswith(PATH)


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n{}",
        b"",
        http(b"not found", "404 Not Found"),
        http(b"", "302 Found\r\nLocation: http://10.0.0.1/json/version"),
        http(b"<html>"),
        http(b"[]"),
        http(b"{}"),
        http(b"null"),
        http(b'{"webSocketDebuggerUrl": "ws://127.0.0.1:99999/devtools/browser/x"}'),
        http(b"\xff\xfe"),
        http(b"[" * 500_000),
        http(b"short", length=500),
        http(b"", length=-5),
        http(b'"' + b"x" * MAX_ANSWER_BYTES, length=10**12),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000,
    ],
)
async def test_what_is_no_browser_is_unreachable(answer: bytes) -> None:
    async with answering(answer) as port:
        with pytest.raises(BrowserUnreachable) as caught:
            await find("127.0.0.1", port)
    assert "pilothouse chrome" in caught.value.hint


async def test_a_path_that_is_no_browsers_is_unreachable() -> None:
    async with answering(lambda port: version(f"ws://127.0.0.1:{port}/admin")) as port:
        with pytest.raises(BrowserUnreachable):
            await find("127.0.0.1", port)


async def test_an_endless_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "CONNECT_S", 1.0)
    endless = [b"x" * 65_536] * 200  # 13 MB; read as far as the limit or the deadline
    async with answering(http(b"{", length=10**9), *endless, hang=True) as port:
        with pytest.raises(BrowserUnreachable):
            await find("127.0.0.1", port)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\n", http(b"{", length=100)])
async def test_what_hangs_is_given_up_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(endpoint, "CONNECT_S", 0.2)
    async with answering(begun, hang=True) as port:
        started = time.monotonic()
        with pytest.raises(BrowserUnreachable, match=r"did not answer within 0\.2 s"):
            await find("127.0.0.1", port)
        assert time.monotonic() - started < GUARD_S


async def test_a_closed_port_and_a_name_without_address_are_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: surely closed
        with pytest.raises(BrowserUnreachable):
            await find("127.0.0.1", taken.getsockname()[1])
    for host in ("", "x" * 300, "a..b", "\ud800"):
        with pytest.raises(BrowserUnreachable, match="has no address"):
            await find(host, 9222)


async def test_a_browser_that_answers_no_http_is_found_by_the_file_beside_its_profile(
    tmp_path: Path,
) -> None:
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    first, second, third = profile_folders(environ)
    for folder in (first, second, third):
        folder.mkdir(parents=True)
    async with answering(http(b"", "404 Not Found")) as port:
        (first / "DevToolsActivePort").write_text("not a port\n")
        (second / "DevToolsActivePort").write_text(f"{port + 1}\n/devtools/browser/other\n")
        (third / "DevToolsActivePort").write_text(f"{port}\n{PATH}\n")
        assert await find("127.0.0.1", port, environ) == f"ws://127.0.0.1:{port}{PATH}"
        (third / "DevToolsActivePort").write_text(f"{port}\n")
        with pytest.raises(BrowserUnreachable, match="HTTP 404"):
            await find("127.0.0.1", port, environ)
