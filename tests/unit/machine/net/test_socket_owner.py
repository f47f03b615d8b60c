"""Who owns the other end of a connection: the kernel's answer, and what is read from /proc."""

from __future__ import annotations

import os
import socket
import sys
from collections import deque
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psutil
import pytest

from pilothouse.machine.net import local_users, socket_owner
from pilothouse.machine.net.local_users import Caller, caller_at, is_of_own_process
from pilothouse.machine.net.socket_owner import (
    SocketEnd,
    SocketOwner,
    owner_in_proc,
    owner_of,
    plain,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="netlink and /proc are Linux'")

FAMILIES = [
    pytest.param("127.0.0.1", "127.0.0.1", id="IPv4"),
    pytest.param("::1", "::1", id="IPv6"),
    pytest.param("127.0.0.1", "::ffff:127.0.0.1", id="IPv4 by a socket for IPv6"),
    pytest.param("::", "127.0.0.1", id="IPv4 to a listener on both"),
    pytest.param("::", "::1", id="IPv6 to a listener on both"),
]


def _socket(host: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)


@contextmanager
def connected(listens: str, connects: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client, and our end of its connection."""
    with ExitStack() as stack:
        listener = stack.enter_context(_socket(listens))
        if listens == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((listens, 0))
        listener.listen()
        client = stack.enter_context(_socket(connects))
        client.connect((connects, listener.getsockname()[1]))
        yield client, stack.enter_context(listener.accept()[0])


def _end(address: tuple[str, int]) -> SocketEnd:
    return SocketEnd(plain(ip_address(address[0])), address[1])


@pytest.mark.parametrize(("listens", "connects"), FAMILIES)
def test_the_owner_of_the_other_end_is_told_alike_by_netlink_and_proc(
    listens: str, connects: str
) -> None:
    with connected(listens, connects) as (client, ours):
        there, here = _end(ours.getpeername()), _end(ours.getsockname())
        inode = os.fstat(client.fileno()).st_ino
        assert owner_of(there, here) == SocketOwner(os.getuid(), inode)
        assert owner_in_proc(there, here) == SocketOwner(os.getuid(), inode)
        assert caller_at(ours.getpeername(), ours.getsockname()) is Caller.OWN
        assert is_of_own_process(there, here)


@pytest.mark.parametrize(("listens", "connects"), FAMILIES)
def test_a_socket_that_was_closed_belongs_to_nobody_although_it_is_shown_as_root_s(
    listens: str, connects: str
) -> None:
    with connected(listens, connects) as (client, ours):
        ends = ours.getpeername(), ours.getsockname()
        client.close()
        there, here = map(_end, ends)
        owner = owner_of(there, here)
        assert owner is not None
        assert owner.inode == 0
        assert caller_at(*ends) is Caller.OTHER
        assert not is_of_own_process(there, here)
        ours.close()  # from here on it waits out its time
        assert caller_at(*ends) is Caller.OTHER


def test_a_listener_on_the_port_of_a_closed_client_is_not_taken_for_it() -> None:
    with connected("127.0.0.1", "127.0.0.1") as (client, ours):
        here, peer = ours.getsockname(), client.getsockname()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            never = listener.getsockname()
            assert owner_of(_end(never), _end(here)) is None
            assert owner_in_proc(_end(never), _end(here)) is None
            assert caller_at(never, here) is Caller.OTHER
        assert caller_at(peer, here) is Caller.OWN


def test_the_sender_of_a_datagram_is_found_by_its_port() -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as receiver,
        socket.socket(type=socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        sender.bind(("127.0.0.1", 0))
        there, here = _end(sender.getsockname()), _end(receiver.getsockname())
        owner = SocketOwner(os.getuid(), os.fstat(sender.fileno()).st_ino)
        assert owner_of(there, here, "udp") == owner_in_proc(there, here, "udp") == owner
        sender.connect(receiver.getsockname())
        assert owner_of(there, here, "udp") == owner_in_proc(there, here, "udp") == owner
        sender.close()
        assert owner_of(there, here, "udp") is None


def test_netlink_is_what_answers_here() -> None:
    """So that the other tests do not compare /proc with itself."""
    assert socket_owner.netlink_answers()


def test_where_netlink_is_refused_proc_is_read_and_without_both_nobody_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_owner, "netlink_answers", lambda: False)
    with connected("127.0.0.1", "127.0.0.1") as (_, ours):
        ends = ours.getpeername(), ours.getsockname()
        assert caller_at(*ends) is Caller.OWN

        def untold(*_: object) -> None:
            raise socket_owner.OwnerUnknown

        monkeypatch.setattr(socket_owner, "owner_in_proc", untold)
        assert caller_at(*ends) is Caller.UNKNOWN


def test_other_users_are_others_and_root_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = ("127.0.0.1", 1), ("127.0.0.1", 2)
    own = os.getuid()
    for uid, caller in ((0, Caller.OWN), (own, Caller.OWN), (own + 1, Caller.OTHER)):
        monkeypatch.setattr(local_users, "owner_of", lambda *_, uid=uid: SocketOwner(uid, 7))
        assert caller_at(*ends) is caller


def test_on_macos_the_own_processes_are_asked_and_whoever_is_in_none_of_them_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unasked(*_: object) -> None:
        raise AssertionError("netlink and /proc are not there")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(local_users, "owner_of", unasked)
    monkeypatch.setattr(local_users, "_found_last", deque(maxlen=8))
    monkeypatch.setattr(psutil, "pids", lambda: [ROOTS, OWN])
    monkeypatch.setattr(psutil, "Process", MacProcess)
    here = ("127.0.0.1", 4000)
    assert caller_at(("127.0.0.1", 1001), here) is Caller.OWN
    assert caller_at(("127.0.0.1", 1000), here) is Caller.OTHER  # although root's
    assert caller_at(("127.0.0.1", 1002), here) is Caller.OTHER
    assert caller_at(("127.0.0.1", 1001), ("127.0.0.1", 4001)) is Caller.OTHER


ROOTS, OWN = 1, 2


class MacProcess:
    """One of root, whose sockets only root may see, and one of our own user."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def uids(self) -> SimpleNamespace:
        return SimpleNamespace(real=0 if self._pid == ROOTS else os.getuid())

    def net_connections(self, kind: str) -> list[SimpleNamespace]:
        assert kind == "tcp"
        if self._pid == ROOTS:
            raise psutil.AccessDenied(self._pid)
        listens = SimpleNamespace(laddr=("127.0.0.1", 1002), raddr=())
        return [listens, SimpleNamespace(laddr=("127.0.0.1", 1001), raddr=("127.0.0.1", 4000))]
