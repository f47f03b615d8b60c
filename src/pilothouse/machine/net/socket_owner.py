"""Who owns a TCP or UDP socket of this machine, by its exact pair of addresses, as Linux tells it.

One question to the kernel over netlink (`sock_diag`) takes microseconds, however many sockets there
are; reading /proc/net/tcp takes milliseconds, so that is done only where netlink is refused.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from typing import Literal, NamedTuple

type Address = IPv4Address | IPv6Address
type Transport = Literal["tcp", "udp"]

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR = 2
NLM_F_REQUEST = 1
LISTEN = 10
"""A TCP socket's state: it has no other end."""
ANY_STATE = 0xFFFFFFFF
NO_COOKIE = 0xFFFFFFFF
_PROTOCOLS: dict[Transport, int] = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP}
_HEADER = struct.Struct("=LHHLL")
_QUESTION = struct.Struct("=BBBxL")
_PORTS = struct.Struct("!HH")
_PAIR_END = struct.pack("=LLL", 0, NO_COOKIE, NO_COOKIE)
_ANSWER = struct.Struct("=BBxx48s12xLL")
_ERROR = struct.Struct("=l")
_LONGEST = 4096


class SocketEnd(NamedTuple):
    """One end of a connection."""

    address: Address
    port: int


@dataclass(frozen=True, slots=True)
class SocketOwner:
    """The owner of a socket."""

    uid: int
    inode: int
    """Inode of the socket; 0: no process holds it any more, and the kernel shows it as root's."""


class OwnerUnknown(Exception):
    """This system does not tell who owns a socket."""


def owner_of(
    local: SocketEnd, remote: SocketEnd, transport: Transport = "tcp"
) -> SocketOwner | None:
    """Return the owner of the socket at `local` that is connected to `remote`; None without one.

    A UDP socket need not be connected: it is found by `local` alone.

    Raises:
        OwnerUnknown: neither netlink nor /proc answers.
    """
    local, remote = _same_family(local, remote)
    if netlink_answers():
        with suppress(OSError):
            return _ask(local, remote, transport)
    return owner_in_proc(local, remote, transport)


def plain(address: Address) -> Address:
    """Return an IPv4 address that is written as an IPv6 one as what it is."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _same_family(local: SocketEnd, remote: SocketEnd) -> tuple[SocketEnd, SocketEnd]:
    # The kernel finds a socket of either family by its IPv4 addresses.
    return SocketEnd(plain(local.address), local.port), SocketEnd(
        plain(remote.address), remote.port
    )


@cache
def netlink_answers() -> bool:
    """Tell whether the kernel answers by netlink who owns a socket.

    It is asked about one of our own: "no such socket" is also the answer of a kernel that does not
    know the question.
    """
    with socket.socket(socket.AF_INET) as own:
        own.bind(("127.0.0.1", 0))
        own.listen(1)
        local = SocketEnd(IPv4Address("127.0.0.1"), own.getsockname()[1])
        try:
            return _answer(local, SocketEnd(IPv4Address(0), 0), "tcp") is not None
        except (OSError, AttributeError):  # refused, or no AF_NETLINK: not Linux
            return False


def _ask(local: SocketEnd, remote: SocketEnd, transport: Transport) -> SocketOwner | None:
    """Return the owner by netlink. Raises OSError where the kernel refuses the question."""
    answer = _answer(local, remote, transport)
    if answer is None:
        return None
    state, ports, owner = answer
    # Without a connection of these addresses the kernel names a listener of that port.
    found = local.port, remote.port
    is_it = ports == found if transport == "tcp" else ports in (found, (local.port, 0))
    return owner if is_it and (transport == "udp" or state != LISTEN) else None


def _answer(
    local: SocketEnd, remote: SocketEnd, transport: Transport
) -> tuple[int, tuple[int, int], SocketOwner] | None:
    """Return the state, the ports and the owner of a socket as the kernel answers."""
    # One for each question: it costs microseconds, and nothing is shared with threads and children.
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG
    ) as kernel:
        kernel.setblocking(False)
        kernel.connect((0, 0))  # nobody but the kernel may answer
        kernel.send(_question(local, remote, transport))
        data = kernel.recv(_LONGEST)  # it has answered before `send` returned
    _, kind, _, _, _ = _HEADER.unpack_from(data)
    if kind == NLMSG_ERROR:
        refusal = -_ERROR.unpack_from(data, _HEADER.size)[0]
        if refusal == errno.ENOENT:
            return None
        raise OSError(refusal, os.strerror(refusal))
    _, state, pair, uid, inode = _ANSWER.unpack_from(data, _HEADER.size)
    return state, _PORTS.unpack_from(pair), SocketOwner(uid, inode)


def _question(local: SocketEnd, remote: SocketEnd, transport: Transport) -> bytes:
    family = socket.AF_INET if isinstance(local.address, IPv4Address) else socket.AF_INET6
    # For UDP the kernel has the two ends the other way round, for historical reasons.
    first, second = (local, remote) if transport == "tcp" else (remote, local)
    body = b"".join(
        (
            _QUESTION.pack(family, _PROTOCOLS[transport], 0, ANY_STATE),
            _PORTS.pack(first.port, second.port),
            first.address.packed.ljust(16, b"\0"),
            second.address.packed.ljust(16, b"\0"),
            _PAIR_END,
        )
    )
    size = _HEADER.size + len(body)
    return _HEADER.pack(size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0) + body


def owner_in_proc(
    local: SocketEnd, remote: SocketEnd, transport: Transport = "tcp"
) -> SocketOwner | None:
    """Return what `owner_of` returns, read from /proc. Raises OwnerUnknown if that is closed."""
    is_readable = False
    for version in ("", "6"):  # a socket for IPv6 may be connected to an IPv4 address
        with suppress(OSError), open(f"/proc/net/{transport}{version}", encoding="ascii") as table:
            is_readable = True
            next(table, None)
            for line in table:
                words = line.split()
                if len(words) < 10 or int(words[3], 16) == LISTEN:
                    continue
                if _at(words[1]) != local:
                    continue
                other = _at(words[2])
                if other == remote or (transport == "udp" and other.port == 0):
                    return SocketOwner(int(words[7]), int(words[9]))
    if not is_readable:
        raise OwnerUnknown("neither netlink nor /proc/net tells who owns a socket")
    return None


def _at(text: str) -> SocketEnd:
    """Return the end of a connection as /proc writes it: 32-bit words in the machine's order."""
    digits, _, port = text.partition(":")
    words = [int(digits[at : at + 8], 16) for at in range(0, len(digits), 8)]
    packed = struct.pack(f"={len(words)}L", *words)
    address: Address = IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)
    return SocketEnd(plain(address), int(port, 16))
