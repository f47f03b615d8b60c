"""Choice of the mitmproxy mode that serves a listen port of the configuration. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "127.0.0.1"
_NOT_HTTP = frozenset({"MQTTv3.1", "XMPP", "Sample", "Sample UpperCase", "Sample Quic"})
"""Encoders whose bytes are no HTTP; every other one reads HTTP first."""
_FORWARDERS = frozenset({"FORWARDER", "SSL_FORWARDER", "UDP_FORWARDER", "QUIC_FORWARDER"})
_TRANSPARENT = frozenset({"HTTP_TRANSPARENT_PROXY", "SSL_TRANSPARENT_PROXY"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """A listen port, with the mode that serves it or the reason why none does."""

    id: int
    port: int
    type: str
    mode: str = ""
    reason: str = ""

    @property
    def spec(self) -> str:
        return f"{self.mode}@{HOST}:{self.port}"


def wanted(config: Mapping[str, Any]) -> list[Wanted]:
    """Return one for each listen port, in order."""
    servers = {server["id"]: server for server in config["servers"]}
    return [_wanted(port, servers.get(port.get("server_id"))) for port in config["listenPorts"]]


def _wanted(listen: Mapping[str, Any], server: Mapping[str, Any] | None) -> Wanted:
    mode = reason = ""
    kind = listen["type"]
    if not listen["enabled"]:
        reason = "disabled"
    elif kind in _FORWARDERS and server is None:
        reason = "it forwards to no server: server_id names none"
    elif kind in _FORWARDERS and server is not None:
        mode = f"reverse:{_scheme(kind, server)}://{_authority(server)}"
    elif kind == "HTTP_PROXY":
        mode = _proxy_mode(server)
    elif kind in _TRANSPARENT:
        mode = "transparent"
    else:
        reason = f"{kind} is not supported"
    return Wanted(listen["id"], listen["port"], kind, mode, reason)


def _proxy_mode(server: Mapping[str, Any] | None) -> str:
    if server is None or not server["http_proxy"]:
        return "regular"  # a server that is no proxy means: straight to where the client wants
    scheme = "https" if _uses_tls(server) else "http"
    return f"upstream:{scheme}://{_authority(server)}"


def _scheme(kind: str, server: Mapping[str, Any]) -> str:
    is_http = server["encoder"] not in _NOT_HTTP
    if kind == "UDP_FORWARDER":
        return "udp"
    if kind == "QUIC_FORWARDER":
        return "http3" if is_http else "quic"
    secure = kind == "SSL_FORWARDER" or _uses_tls(server)
    if is_http:
        return "https" if secure else "http"
    return "tls" if secure else "tcp"


def _uses_tls(server: Mapping[str, Any]) -> bool:
    """Return whether it speaks TLS: the encoder HTTPS is HTTP over TLS."""
    return bool(server["use_ssl"]) or server["encoder"] == "HTTPS"


def _authority(server: Mapping[str, Any]) -> str:
    host = str(server["ip"])
    return f"[{host}]:{server['port']}" if ":" in host else f"{host}:{server['port']}"
