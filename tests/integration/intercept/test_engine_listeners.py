"""Listeners of every sort, changed while the proxy runs."""

from __future__ import annotations

import asyncio
import socket
import ssl
from base64 import b64encode
from hashlib import sha256

import httpx
import pytest
import websockets
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pilothouse.core.net.url_policy import Policy
from pilothouse.e2e.egress_proxy.proxy import open_proxy
from pilothouse.intercept.engine.certificates import ca_pem, spki_hash
from tests.support.engine_rig import GUARD_S, Rig
from tests.support.ports import free_port
from tests.support.quic import h3_get, h3_upstream
from tests.support.upstreams import (
    Authority,
    http_upstream,
    tcp_upstream,
    udp_upstream,
    websocket_upstream,
)

pytestmark = pytest.mark.anyio


async def test_taken_port_fails_with_the_reason_and_the_others_run(rig: Rig) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free, busy = free_port(), taken.getsockname()[1]
        states = await rig.listen(listen=[{"port": busy}, {"port": free}])
    assert [state["running"] for state in states] == [False, True]
    assert states[0]["reason"] == f"port {busy} is taken by another program"
    async with http_upstream() as server, rig.client(free) as client:
        assert (await client.get(f"http://{server.address}/hello")).status_code == 200


async def test_unsupported_and_disabled_listeners_say_so(rig: Rig) -> None:
    states = await rig.listen(
        listen=[
            {"port": free_port(), "type": "XMPP_SSL_FORWARDER", "server_id": 1},
            {"port": free_port(), "enabled": False},
            {"port": free_port(), "type": "FORWARDER", "server_id": 9},
        ],
        servers=[{"port": 5222}],
    )
    assert [state["running"] for state in states] == [False] * 3
    assert "not supported" in states[0]["reason"]
    assert states[1]["reason"] == "disabled"
    assert "server_id" in states[2]["reason"]


@pytest.mark.parametrize("kind", ["HTTP_TRANSPARENT_PROXY", "SSL_TRANSPARENT_PROXY"])
async def test_transparent_proxy_refuses_what_was_not_redirected_to_it(rig: Rig, kind: str) -> None:
    """Where it would lead is told by the system alone; nothing may send it back to itself."""
    port, other = free_port(), free_port()
    states = await rig.listen(listen=[{"port": port, "type": kind}, {"port": other}])
    assert [state["running"] for state in states] == [True, True]
    async with httpx.AsyncClient(timeout=GUARD_S) as client:
        try:
            answer = await client.get(f"http://127.0.0.1:{port}/")
        except httpx.HTTPError:
            answer = None
    assert answer is None or answer.status_code == 403
    async with http_upstream() as server, rig.client(other) as client:
        assert (await client.get(f"http://{server.address}/hello")).status_code == 200


async def test_quic_forwarder_listens_for_datagrams_only(rig: Rig) -> None:
    port = free_port()
    [state] = await rig.listen(
        listen=[{"port": port, "type": "QUIC_FORWARDER", "server_id": 1}],
        servers=[{"port": 443, "use_ssl": True}],
    )
    assert state["running"] is True
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken,
        pytest.raises(OSError, match="in use"),
    ):
        taken.bind(("127.0.0.1", port))


async def test_http3_is_recorded_through_a_quic_forwarder(rig: Rig, upstream_ca: Authority) -> None:
    port, target = free_port(), free_port()
    async with h3_upstream(upstream_ca, target), asyncio.timeout(GUARD_S):
        await rig.listen(
            listen=[{"port": port, "type": "QUIC_FORWARDER", "server_id": 1}],
            servers=[{"port": target, "ip": "localhost", "use_ssl": True}],
        )
        trusted = rig.folder / "ca" / "mitmproxy-ca-cert.pem"
        assert await h3_get(port, "/three", trusted) == b"h3:/three"
        request, response = await rig.pair("/three")
    assert (request["version"], request["alpn"], request["scheme"]) == ("HTTP/3", "h3", "https")
    assert response["body"] == b"h3:/three"


async def test_closing_a_listener_closes_its_connections_and_leaves_others(rig: Rig) -> None:
    one, other = free_port(), free_port()
    async with tcp_upstream() as server:
        servers = [{"port": server.port, "encoder": "Sample"}]
        listen = [{"port": port, "type": "FORWARDER", "server_id": 1} for port in (one, other)]
        await rig.listen(listen=listen, servers=servers)
        ends = [await asyncio.open_connection("127.0.0.1", port) for port in (one, other)]
        for reader, writer in ends:
            writer.write(b"hi")
            assert await reader.readexactly(2) == b"hi"
        await rig.listen(listen=listen[1:], servers=servers)
        async with asyncio.timeout(GUARD_S):
            assert await ends[0][0].read() == b""
        ends[1][1].write(b"still")
        assert await ends[1][0].readexactly(5) == b"still"
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await asyncio.open_connection("127.0.0.1", one)
        for _, writer in ends:
            writer.close()


async def test_forwarders_record_http_tcp_and_udp(rig: Rig, upstream_ca: Authority) -> None:
    ports = [free_port() for _ in range(4)]
    kinds = ["FORWARDER", "SSL_FORWARDER", "FORWARDER", "UDP_FORWARDER"]
    async with (
        http_upstream() as plain,
        http_upstream(upstream_ca.context()) as secure,
        tcp_upstream() as tcp,
        udp_upstream() as udp,
    ):
        servers = [
            {"port": plain.port},
            {"port": secure.port, "ip": "localhost", "use_ssl": True},
            {"port": tcp.port, "encoder": "Sample"},
            {"port": udp.port, "encoder": "Sample"},
        ]
        listen = [
            {"port": port, "type": kind, "server_id": at}
            for at, (port, kind) in enumerate(zip(ports, kinds, strict=True), 1)
        ]
        states = await rig.listen(listen=listen, servers=servers)
        assert [state["reason"] for state in states] == [""] * 4
        async with httpx.AsyncClient(verify=rig.trust(), timeout=GUARD_S) as client:
            answer = await client.get(f"http://127.0.0.1:{ports[0]}/echo?plain")
            # What a forwarder was sent is what its server gets.
            assert answer.json()["headers"]["host"] == f"127.0.0.1:{ports[0]}"
            await client.get(f"https://localhost:{ports[1]}/echo?tls")
        reader, writer = await asyncio.open_connection("127.0.0.1", ports[2])
        writer.write(b"tcp bytes")
        assert await reader.readexactly(9) == b"tcp bytes"
        writer.close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendto(datagrams, b"udp bytes", ("127.0.0.1", ports[3]))
            async with asyncio.timeout(GUARD_S):
                assert await loop.sock_recv(datagrams, 100) == b"udp bytes"
    rows = await rig.packets()
    seen = {(row["type"], row["is_response"], row["url"] or bytes(row["body"])) for row in rows}
    assert {("HTTP", 1, "/echo?plain"), ("HTTP", 1, "/echo?tls")} <= seen
    for kind, body in (("TCP", b"tcp bytes"), ("UDP", b"udp bytes")):
        assert {(kind, 0, body), (kind, 1, body)} <= seen
    assert {row["listener"] for row in rows if row["type"] == "TCP"} >= {ports[2]}


async def test_pass_through_shows_the_servers_own_certificate(
    rig: Rig, upstream_ca: Authority
) -> None:
    port = free_port()
    async with http_upstream(upstream_ca.context()) as server:
        url = f"https://localhost:{server.port}/untouched"
        await rig.listen(listen=[{"port": port}], passes=[{"server_name": "local.*"}])
        trust = ssl.create_default_context(cafile=upstream_ca.ca_file)
        async with httpx.AsyncClient(proxy=f"http://127.0.0.1:{port}", verify=trust) as client:
            assert (await client.get(url)).status_code == 200
        assert not [row for row in await rig.packets() if row["url"] == "/untouched"]
        # A pattern for another listener does not count for this one.
        await rig.listen(
            listen=[{"port": port}], passes=[{"server_name": "localhost", "listen_port": 1}]
        )
        async with rig.client(port) as client:
            await client.get(url)
    assert [row for row in await rig.packets() if row["url"] == "/untouched"]


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "[::1]"]
)
async def test_own_ports_are_refused_in_any_spelling(rig: Rig, host: str) -> None:
    port = free_port()
    async with http_upstream() as control:
        await rig.ask(
            "configure",
            config={
                "listenPorts": [
                    {"id": 1, "enabled": True, "type": "HTTP_PROXY", "port": port, "server_id": -1}
                ],
                "servers": [],
                "modifications": [],
                "sslPassThroughs": [],
            },
            blocked_ports=[control.port],
        )
        target = f"{host}:{control.port}"
        for line in (f"GET http://{target}/ HTTP/1.1", f"CONNECT {target} HTTP/1.1"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{line}\r\nHost: {target}\r\n\r\n".encode())
            assert b" 403 " in await asyncio.wait_for(reader.readline(), GUARD_S)
            writer.close()
        assert control.heads == []


async def test_one_listener_cannot_be_reached_through_another(rig: Rig) -> None:
    port = free_port()
    await rig.listen(listen=[{"port": port}])
    own = await rig.session("someone")
    async with rig.client(port) as client:
        assert (await client.get(f"http://127.0.0.1:{own}/")).status_code == 403


async def test_session_goes_through_its_upstream_proxy_alone(rig: Rig) -> None:
    through = await rig.session("policy")
    own = await rig.session("browser", upstream=through)
    async with http_upstream() as server, rig.client(own) as client:
        assert (await client.get(f"http://{server.address}/via")).status_code == 200
    sessions = {row["session"] for row in await rig.packets() if row["url"] == "/via"}
    assert sessions == {"policy", "browser"}
    await rig.ask("close_browser", name="policy")
    async with rig.client(own) as client:
        assert (await client.get("http://127.0.0.1:9/")).status_code == 502


async def test_session_behind_the_policy_proxy_reaches_what_the_policy_allows_and_no_more(
    rig: Rig, upstream_ca: Authority
) -> None:
    refused: list[str] = []
    async with (
        http_upstream(upstream_ca.context()) as secure,
        websocket_upstream(upstream_ca.context()) as sockets,
        http_upstream() as closed,
        open_proxy(
            lambda: Policy(development=True, blocked_ports=frozenset({closed.port})),
            lambda refusal: refused.append(f"{refusal.host}:{refusal.port}"),
        ) as policy,
    ):
        port = await rig.session("chained", upstream=policy.port)
        async with rig.client(port) as client:
            answer = await client.get(f"https://localhost:{secure.port}/echo?chained")
            assert answer.json()["headers"]["x-pilothouse-exchange"]
            blocked = await client.get(f"http://localhost:{closed.port}/hello")
        async with websockets.connect(
            f"wss://localhost:{sockets.port}/chained",
            proxy=f"http://127.0.0.1:{port}",
            ssl=rig.trust(),
        ) as socket_:
            await socket_.send("hi")
            assert await socket_.recv() == "echo:hi"
    assert blocked.status_code == 403
    assert closed.heads == []
    assert refused == [f"localhost:{closed.port}"]
    rows = [row for row in await rig.packets() if row["session"] == "chained"]
    assert {"/echo?chained", "/hello", "/chained"} <= {row["url"] for row in rows}


async def test_certificate_shown_has_the_key_that_a_browser_is_told_to_trust(
    rig: Rig, upstream_ca: Authority
) -> None:
    port = await rig.session("pinned")
    async with http_upstream(upstream_ca.context()) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        target = f"localhost:{server.port}"
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        await writer.start_tls(rig.trust(), server_hostname="localhost")
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
    key = x509.load_der_x509_certificate(shown).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert spki_hash(rig.folder) == b64encode(sha256(der).digest()).decode()
    assert ca_pem(rig.folder) == (rig.folder / "ca" / "mitmproxy-ca-cert.pem").read_bytes()


async def test_closed_session_listens_no_more_and_its_port_can_be_had_again(rig: Rig) -> None:
    port = await rig.session("brief")
    await rig.ask("close_browser", name="brief")
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)
    again = await rig.ask("open_browser", name="brief", session="brief", port=port)
    assert again == {"port": port}
