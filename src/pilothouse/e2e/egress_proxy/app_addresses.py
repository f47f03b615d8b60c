"""Where a session's own app is: names looked up once, and each address judged before it is used.

A name may lead to a public address now and to this network a moment later. So nothing that was
judged is looked up again: what passed is what is connected to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from pilothouse.core.net.url_policy import target_of
from pilothouse.e2e.model import UrlNotAllowed

if TYPE_CHECKING:
    from pilothouse.core.net.url_policy import Address, Host, Policy

type Resolve = Callable[[str], Awaitable[Sequence[Address]]]
"""All addresses of a name, in the order to try them; OSError when there are none."""

# By definition, whatever a resolver says; in the order in which Chromium tries them.
LOCALHOST: tuple[Address, ...] = (IPv6Address("::1"), IPv4Address("127.0.0.1"))


def look_up(name: str) -> tuple[Address, ...]:
    """Ask the system's resolver for a name's addresses, and wait; raises OSError for none."""
    # As bytes, or Python would re-encode the name and refuse what a resolver takes.
    found = socket.getaddrinfo(
        name.encode("ascii"), None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
    )
    # Without the zone of a link-local address: the policy lets no name lead to one.
    addresses = [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]
    return tuple(dict.fromkeys(addresses))


async def resolve_name(name: str) -> Sequence[Address]:
    """Ask the system's resolver in a thread."""
    return await asyncio.to_thread(look_up, name)


async def addresses_of(host: Host, resolve: Resolve = resolve_name) -> Sequence[Address]:
    """Return a host's addresses; only a name that could lead anywhere is looked up."""
    if host.address is not None:
        return (host.address,)
    if host.is_localhost:
        return LOCALHOST
    return await resolve(host.name)


async def judged_addresses(
    url: str, policy: Policy, resolve: Resolve = resolve_name
) -> tuple[Address, ...]:
    """Return where a URL leads, if its browser may visit all of that; nothing if to nowhere yet.

    Raises:
        UrlNotAllowed: it may not.
    """
    verdict = policy.check_url(url)
    found: tuple[Address, ...] = ()
    if verdict.allowed and verdict.rule != "blank":
        scheme, host, port = target_of(url)
        found = policy.kept_addresses(scheme, host, port) or await known_addresses(host, resolve)
        verdicts = (policy.check_address(host.name, address, port, scheme) for address in found)
        verdict = next((one for one in verdicts if not one.allowed), verdict)
    if not verdict.allowed:
        raise UrlNotAllowed(
            verdict.reason,
            hint="startSession(url) takes the address of your own app",
            url=url,
            rule=verdict.rule,
        )
    return found


async def known_addresses(host: Host, resolve: Resolve = resolve_name) -> tuple[Address, ...]:
    """Return a host's addresses; none if it is not known."""
    try:
        return tuple(await addresses_of(host, resolve))
    except OSError:
        return ()
