"""Which mode serves which listen port."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.intercept.engine.listen_modes import wanted


def server(**said: Any) -> dict[str, Any]:
    usual = {"id": 1, "ip": "10.0.0.1", "port": 443, "encoder": "HTTP", "use_ssl": False}
    return {**usual, "http_proxy": False, **said}


def mode(kind: str, target: dict[str, Any] | None, *, enabled: bool = True) -> tuple[str, str]:
    listen = {"id": 7, "port": 8080, "type": kind, "server_id": 1, "enabled": enabled}
    [one] = wanted({"listenPorts": [listen], "servers": [target] if target else []})
    return one.mode, one.reason


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        ("HTTP_PROXY", {"encoder": "HTTPS", "use_ssl": True}, "regular"),
        ("HTTP_PROXY", {"http_proxy": True}, "upstream:http://10.0.0.1:443"),
        ("HTTP_PROXY", {"http_proxy": True, "use_ssl": True}, "upstream:https://10.0.0.1:443"),
        ("FORWARDER", {}, "reverse:http://10.0.0.1:443"),
        ("FORWARDER", {"encoder": "HTTPS"}, "reverse:https://10.0.0.1:443"),
        ("FORWARDER", {"encoder": "MQTTv3.1"}, "reverse:tcp://10.0.0.1:443"),
        ("SSL_FORWARDER", {}, "reverse:https://10.0.0.1:443"),
        ("SSL_FORWARDER", {"encoder": "Sample"}, "reverse:tls://10.0.0.1:443"),
        ("UDP_FORWARDER", {}, "reverse:udp://10.0.0.1:443"),
        ("QUIC_FORWARDER", {}, "reverse:http3://10.0.0.1:443"),
        ("QUIC_FORWARDER", {"encoder": "Sample Quic"}, "reverse:quic://10.0.0.1:443"),
        ("FORWARDER", {"ip": "::1"}, "reverse:http://[::1]:443"),
        ("SSL_TRANSPARENT_PROXY", {}, "transparent"),
    ],
)
def test_each_type_has_its_mode(kind: str, said: dict[str, Any], expected: str) -> None:
    assert mode(kind, server(**said)) == (expected, "")


def test_proxy_without_a_server_goes_straight() -> None:
    assert mode("HTTP_PROXY", None) == ("regular", "")


def test_what_cannot_be_served_says_why() -> None:
    assert mode("XMPP_SSL_FORWARDER", server()) == ("", "XMPP_SSL_FORWARDER is not supported")
    assert mode("HTTP_PROXY", server(), enabled=False) == ("", "disabled")
    assert "server_id" in mode("FORWARDER", None)[1]
