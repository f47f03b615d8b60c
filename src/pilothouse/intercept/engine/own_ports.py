"""Guard that keeps clients of the proxy from Pilothouse's own ports, however spelt."""

from __future__ import annotations

import asyncio
import errno
import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

from pilothouse.core.net.url_policy import UrlError, canonical_host, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pilothouse.core.net.url_policy import Kind, Policy

_HOME = frozenset({"loopback", "special"})
"""Kinds of addresses of this machine: special has 0.0.0.0 and ::, which lead to it as well."""


class OwnPortGuard:
    """Guard that looks closer only at ports of ours: all other traffic costs one look-up."""

    def __init__(self, listening: Callable[[], frozenset[int]], policy: Policy) -> None:
        """Take `policy` for what a browser had asked for whose session is over."""
        self._listening = listening
        self._policy = policy
        self._blocked: frozenset[int] = frozenset()
        self._allowed: frozenset[int] = frozenset()

    def configure(self, blocked: Iterable[int], allowed: Iterable[int]) -> None:
        self._blocked, self._allowed = frozenset(blocked), frozenset(allowed)

    def concerns(self, port: int, *, is_judged: bool = False) -> bool:
        """Tell whether a port is one of Pilothouse's own.

        Where `is_judged`, a proxy behind us checks where each host leads, and reports to its
        session what it refused. It knows all ports that we were given, but not our listeners'.
        """
        is_ours = port in self._listening() or (port in self._blocked and not is_judged)
        return is_ours and port not in self._allowed

    async def forbids(self, host: str, port: int) -> bool:
        return self.concerns(port) and await self.leads_home(host)

    async def addresses(self, host: str, port: int, *, is_pages: bool) -> list[str]:
        """Look a host up, and return where what is sent again may go.

        What a page had asked for goes where any session's browser may go: its own has ended, and
        with it what was open to that one alone.

        Raises:
            OSError: nowhere.
        """
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        passed = [
            ip
            for ip in dict.fromkeys(str(address[0]) for *_, address in found)
            if not (self.concerns(port) and self.is_home(ip))
            and (not is_pages or self._is_open(host, port, ip))
        ]
        if not passed:
            raise PermissionError(errno.EACCES, f"nothing may be sent to where {host} leads")
        return passed

    def _is_open(self, host: str, port: int, ip: str) -> bool:
        address = ip_address(ip.partition("%")[0])
        return self._policy.check_address(host, address, port).allowed

    async def leads_home(self, host: str) -> bool:
        """Return whether a host is this machine, by its spelling or by what it resolves to."""
        try:
            named = canonical_host(host)
        except UrlError:
            return True  # whatever it is, it is no reason to connect to a port of ours
        if named.is_localhost:
            return True
        if named.address is not None:
            return kind_of(named.address) in _HOME
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                named.name, None, type=socket.SOCK_STREAM
            )
        except OSError:
            return False  # then nobody can connect to it either
        return any(self.is_home(str(address[0])) for *_, address in found)

    def is_home(self, ip: str) -> bool:
        return _kind(ip) in _HOME


def _kind(ip: str) -> Kind:
    return kind_of(ip_address(ip.partition("%")[0]))
