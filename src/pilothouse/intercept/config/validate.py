"""Checks between the items of a configuration: what is wrong, and what has no effect."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilothouse.core.regex import BadPattern
from pilothouse.intercept.config.items import CA_NAME
from pilothouse.intercept.config.rules import (
    ALL_PORTS,
    ALL_SERVERS,
    BadRule,
    change_of,
    pass_through_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pilothouse.intercept.config.items import Config, Item, ListenPort, Modification

NO_SERVER = (0, -1)
"""Values of a listener's `server_id` when it connects by itself."""
UNSUPPORTED = ("XMPP_SSL_FORWARDER", "QUIC_TRANSPARENT_PROXY")
ENCODERS = (
    "HTTP", "HTTPS", "HTTP WebSocket", "HTTP Streaming Response", "gRPC", "gRPC Streaming",
    "gRPC-Web",
)  # fmt: skip
"""Encoders whose messages the engine shows in a form of their own."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    path: str
    expected: str
    received: str


def shown(value: object) -> str:
    """Describe a value in a few words, whatever it is."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and abs(value) > 10**18:
        return "a very large number"
    if isinstance(value, str):
        return json.dumps(value if len(value) <= 80 else value[:77] + "…")
    return json.dumps(value, default=lambda other: type(other).__name__)


def misfits(config: Config) -> Iterator[Problem]:
    """Yield what is wrong between items that are each sound."""
    servers = {server.id for server in config.servers}
    yield from _repeated_ids("listenPorts", config.listenPorts)
    yield from _listener_misfits(config.listenPorts, servers)
    yield from _repeated_ids("servers", config.servers)
    yield from _repeats(
        ("servers", "encoder", (server.ip.lower(), server.port, server.encoder))
        for server in config.servers
    )
    yield from _repeated_ids("modifications", config.modifications)
    yield from _modification_misfits(config.modifications, servers)
    yield from _repeated_ids("sslPassThroughs", config.sslPassThroughs)
    for at, item in enumerate(config.sslPassThroughs):
        try:
            pass_through_pattern(item.server_name)
        except BadPattern as error:
            path = f"sslPassThroughs[{at}].server_name"
            yield Problem(path, f"an RE2 pattern ({error})", shown(item.server_name))


def _repeated_ids(category: str, items: Iterable[Item]) -> Iterator[Problem]:
    yield from _repeats((category, "id", (item.id,)) for item in items)


def _repeats(keys: Iterable[tuple[str, str, tuple[object, ...]]]) -> Iterator[Problem]:
    """Yield a problem for each key that an earlier item of the category has already."""
    seen: dict[tuple[object, ...], int] = {}
    for at, (category, field, key) in enumerate(keys):
        if key in seen:
            value = ", ".join(map(shown, key))
            taken = f"{value}, which {category}[{seen[key]}] has"
            yield Problem(f"{category}[{at}].{field}", "one that no other item has", taken)
        seen.setdefault(key, at)


def _listener_misfits(
    listeners: Sequence[ListenPort], servers: set[int | None]
) -> Iterator[Problem]:
    bound: dict[tuple[int, str], int] = {}
    for at, listener in enumerate(listeners):
        path = f"listenPorts[{at}]"
        key = (listener.port, listener.transport)
        if listener.enabled and key in bound:
            expected = f"a {listener.transport} port that no other enabled listener has"
            yield Problem(
                f"{path}.port", expected, f"{listener.port}, as in listenPorts[{bound[key]}]"
            )
        if listener.enabled:
            bound.setdefault(key, at)
        if listener.protocol not in (None, listener.transport):
            expected = f"{listener.transport}, which is what {listener.type} uses"
            yield Problem(f"{path}.protocol", expected, shown(listener.protocol))
        none_is_fine = not listener.forwards and listener.server_id in NO_SERVER
        if not none_is_fine and listener.server_id not in servers:
            expected = "the id of a server in servers" + ", or -1" * (not listener.forwards)
            yield Problem(f"{path}.server_id", expected, shown(listener.server_id))


def _modification_misfits(
    modifications: Sequence[Modification], servers: set[int | None]
) -> Iterator[Problem]:
    yield from _repeats(
        ("modifications", "pattern", (item.server_id, item.direction, item.pattern, item.method))
        for item in modifications
    )
    for at, item in enumerate(modifications):
        if item.server_id != ALL_SERVERS and item.server_id not in servers:
            expected = "the id of a server in servers, or -1 for all"
            yield Problem(f"modifications[{at}].server_id", expected, shown(item.server_id))
        try:
            change_of(item.method, item.pattern, item.replaced)
        except BadRule as error:
            received = shown(getattr(item, error.field))
            yield Problem(f"modifications[{at}].{error.field}", error.expected, received)


def warnings_of(config: Config) -> list[str]:
    """Return what is stored and not acted on, or not the way that one might think."""
    return [*_listener_warnings(config), *_server_warnings(config), *_pass_warnings(config)]


def _listener_warnings(config: Config) -> Iterator[str]:
    servers = {server.id: server for server in config.servers}
    for at, listener in enumerate(config.listenPorts):
        path = f"listenPorts[{at}]"
        if listener.type in UNSUPPORTED:
            yield f"{path}.type: {listener.type} is stored but not supported; it does not listen"
        if listener.ca_name != CA_NAME:
            yield f"{path}.ca_name is stored; every listener uses Pilothouse's own CA"
        server = servers.get(listener.server_id)
        if server and not listener.forwards and not server.http_proxy:
            yield (
                f"{path}.server_id: server {server.id} is no HTTP proxy (http_proxy is false), so"
                " the listener connects directly"
            )
        is_plain = server and not server.use_ssl and server.encoder != "HTTPS"
        if server and is_plain and listener.type == "SSL_FORWARDER":
            yield (
                f"{path}.type: SSL_FORWARDER speaks TLS with its server too, though use_ssl of"
                f" server {server.id} is false"
            )


def _server_warnings(config: Config) -> Iterator[str]:
    for at, server in enumerate(config.servers):
        for name in ("resolved_by_dns", "resolved_by_dns6"):
            if getattr(server, name):
                yield f"servers[{at}].{name} is stored but not acted on: there is no DNS server"
        if server.encoder not in ENCODERS:
            yield (
                f"servers[{at}].encoder {shown(server.encoder)} is stored, but no decoder of that"
                " name is here; messages are shown as they are sent"
            )


def _pass_warnings(config: Config) -> Iterator[str]:
    ports = {ALL_PORTS, *(listener.port for listener in config.listenPorts)}
    for at, item in enumerate(config.sslPassThroughs):
        if item.listen_port not in ports:
            yield (
                f"sslPassThroughs[{at}].listen_port {item.listen_port} is no port of listenPorts,"
                " so it has no effect; it means the proxy's own port, and -1 means all of them"
            )
