"""Servers that ask for a client certificate: with one they are reached, without one they say so."""

from __future__ import annotations

import ssl
import subprocess
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.support import forkserver
from tests.support.intercepting import GUARD_S, Tap
from tests.support.servers import environment
from tests.support.serving import serving
from tests.support.until import wait_until
from tests.support.upstreams import Authority, authority, h2_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.engine_rig import Rig

ROUNDS = 5
"""The server's alert and our request cross each other: each order has to be told alike."""


@contextmanager
def asking_site(
    signed: Authority,
    *,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
    verify: ssl.VerifyMode = ssl.CERT_REQUIRED,
) -> Iterator[str]:
    """An HTTPS server that asks for a certificate of the same authority; its address."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            assert isinstance(self.connection, ssl.SSLSocket)
            body = b"known" if self.connection.getpeercert() else b"unknown"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    context = signed.context()
    context.maximum_version = version
    context.verify_mode = verify
    context.load_verify_locations(signed.ca_file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server):
        yield f"https://localhost:{server.server_port}"


@pytest.fixture(scope="module")
def trusting(upstream_ca: Authority) -> Iterator[Tap]:
    """A proxy that trusts the servers and has no certificate for them."""
    with Tap(env={"PILOTHOUSE_UPSTREAM_CA": str(upstream_ca.ca_file)}) as tap:
        tap.listen()
        yield tap


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_without_a_certificate_the_server_is_said_to_ask_for_one(
    trusting: Tap, upstream_ca: Authority, version: ssl.TLSVersion
) -> None:
    with asking_site(upstream_ca, version=version) as site:
        for turn in range(ROUNDS):
            answer = trusting.get(f"{site}/{version.name}/{turn}", verify=False)
            assert answer.status_code == 502
            assert "asks for a client certificate" in answer.text
            assert "--client-cert" in answer.text
    (packet, *_) = wait_until(
        lambda: trusting.packets(f"url == /{version.name}/0", fields=["error"])
    )
    assert "asks for a client certificate" in packet["error"]


def test_a_server_that_only_offers_to_look_at_one_is_reached(
    trusting: Tap, upstream_ca: Authority
) -> None:
    with asking_site(upstream_ca, verify=ssl.CERT_OPTIONAL) as site:
        assert trusting.get(f"{site}/optional", verify=False).text == "unknown"


def test_a_resend_says_so_too(trusting: Tap, upstream_ca: Authority) -> None:
    with asking_site(upstream_ca) as site:
        trusting.get(f"{site}/again", verify=False)
        (packet, *_) = wait_until(lambda: trusting.packets("url == /again", fields=["id"]))
        sent = trusting.call("resend_packet", packet_id=packet["id"])
    assert (sent["success"], sent["failed_count"]) == (False, 1)
    assert "asks for a client certificate" in sent["errors"][0]


def test_with_a_certificate_the_server_is_reached_also_by_a_resend(upstream_ca: Authority) -> None:
    certificate = str(upstream_ca.chain_file)
    env = {"PILOTHOUSE_UPSTREAM_CA": str(upstream_ca.ca_file)}
    with asking_site(upstream_ca) as site, Tap("--client-cert", certificate, env=env) as tap:
        tap.listen()
        assert tap.get(f"{site}/mine", verify=False).text == "known"
        request, _ = tap.both("url == /mine")
        sent = tap.call("resend_packet", packet_id=request["id"])
        assert (sent["success"], sent["sent_count"]) == (True, 1)
        _, response = tap.both("url == /mine && resend == true")
        detail = tap.call("get_packet_detail", packet_id=response["id"], include_body=True)
        assert detail["body"]["response"] == "known"


def test_a_certificate_that_the_server_does_not_take_is_told_as_that(
    upstream_ca: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stranger = str(authority(tmp_path_factory.mktemp("stranger")).chain_file)
    env = {"PILOTHOUSE_UPSTREAM_CA": str(upstream_ca.ca_file)}
    with asking_site(upstream_ca) as site, Tap("--client-cert", stranger, env=env) as tap:
        tap.listen()
        answer = tap.get(f"{site}/strange", verify=False)
        assert answer.status_code == 502
        assert "did not accept the client certificate" in answer.text


def test_a_file_without_a_key_is_refused_at_the_start(upstream_ca: Authority) -> None:
    ended = subprocess.run(
        forkserver.command("pilothouse", "--client-cert", str(upstream_ca.ca_file)),
        env=environment({"PILOTHOUSE_HOME": str(upstream_ca.ca_file.parent / "home")}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD_S,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("pilothouse: --client-cert: ")


@pytest.mark.anyio
async def test_over_http2_the_server_is_said_to_ask_for_one(
    rig: Rig, upstream_ca: Authority
) -> None:
    context = upstream_ca.context("h2")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(upstream_ca.ca_file)
    port = await rig.session("asked")
    async with h2_upstream(context) as server, rig.client(port, http2=True) as client:
        answer = await client.get(f"https://localhost:{server.port}/h2")
    assert answer.status_code == 502
    assert "asks for a client certificate" in answer.text
