"""Whose process holds the other end of a connection that a listener of ours has taken.

Loopback keeps other machines out, but not the other users of this one. Our own user and root are
let in: whoever is root can read our files anyway.
"""

from __future__ import annotations

import os
import socket
import sys
from collections import deque
from contextlib import suppress
from enum import Enum
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from pilothouse.machine.net.socket_owner import OwnerUnknown, SocketEnd, owner_of, plain

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from pilothouse.machine.net.socket_owner import Transport

ROOT = 0
_RECENT = 8


class Caller(Enum):
    """The user who has connected, as seen from ours."""

    OWN = "own"
    """Our own user, or root."""
    OTHER = "other"
    """Another user, or nobody: a socket that was closed belongs to no process any more."""
    UNKNOWN = "unknown"
    """The system does not tell."""


def caller_of(transport: asyncio.BaseTransport) -> Caller:
    """Return who has connected to us by a transport. A unix socket of ours lies in a folder that
    nobody else may enter."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family == getattr(socket, "AF_UNIX", None):
        return Caller.OWN
    ends = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return caller_at(*ends) if all(ends) else Caller.OTHER


def caller_at(
    peer: Sequence[object], here: Sequence[object], transport: Transport = "tcp"
) -> Caller:
    """Return who has connected from the address `peer` to our own `here`."""
    there, our_end = endpoint_of(peer), endpoint_of(here)
    if sys.platform == "darwin":
        return Caller.OWN if is_of_own_process(there, our_end) else Caller.OTHER
    try:
        owner = owner_of(there, our_end, transport)
    except OwnerUnknown:
        return Caller.UNKNOWN
    if owner is None or not owner.inode:
        return Caller.OTHER
    if owner.uid == ROOT:
        return Caller.OWN
    if owner.uid != os.getuid():
        return Caller.OTHER
    return Caller.UNKNOWN if _stands_for_others(owner.uid) else Caller.OWN


@cache
def tells_callers() -> bool:
    """Return whether this system tells who has connected to us, tried on a connection of ours."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as ours:
            return caller_at(ours.getsockname(), ours.getpeername()) is not Caller.UNKNOWN


def endpoint_of(address: Sequence[object]) -> SocketEnd:
    """Return an end of a connection from its address as sockets tell it."""
    host, port = str(address[0]).partition("%")[0], int(str(address[1]))
    return SocketEnd(plain(ip_address(host)), port)


@cache
def _stands_for_others(uid: int) -> bool:
    """Return whether this uid is also what the kernel shows for users that it cannot name: those
    outside of the user namespace in which we run."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as overflow:
            if int(overflow.read()) != uid:
                return False
        with open("/proc/self/uid_map", encoding="ascii") as mapped:
            return mapped.read().split() != ["0", "0", "4294967295"]
    except OSError:
        return False


_found_last: deque[int] = deque(maxlen=_RECENT)
"""Processes that connected before: a browser and a client connect again and again."""


def is_of_own_process(there: SocketEnd, here: SocketEnd) -> bool:
    """Return whether a process of our own user holds the TCP connection from `there` to `here`.

    For macOS, where a user may look at the sockets of the own processes alone.
    """
    import psutil

    known = tuple(_found_last)
    for pid in (*known, *(pid for pid in psutil.pids() if pid not in known)):
        with suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if process.uids().real != os.getuid():
                continue
            for one in process.net_connections("tcp"):
                if one.raddr and (endpoint_of(one.laddr), endpoint_of(one.raddr)) == (there, here):
                    if pid not in _found_last:
                        _found_last.append(pid)
                    return True
    return False
