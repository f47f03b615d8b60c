"""A free port stays free until the server that it was found for listens."""

from __future__ import annotations

import socket

import pytest

from pilothouse.machine.net import local_ports
from pilothouse.machine.net.local_ports import free_port, is_taken


def test_a_free_port_is_none_that_the_system_gives_to_others() -> None:
    found = {free_port() for _ in range(50)}
    assert len(found) > 40
    assert all(local_ports.FIRST <= port <= local_ports.LAST for port in found)
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] > local_ports.LAST


@pytest.mark.parametrize(
    ("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_port_of_either_loopback_address_is_taken(family: int, host: str) -> None:
    with socket.socket(family) as holder:
        holder.bind((host, 0))
        holder.listen()
        port = holder.getsockname()[1]
        assert is_taken(port)
    assert not is_taken(port)


def test_where_all_are_taken_the_system_is_asked_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        monkeypatch.setattr(local_ports, "FIRST", port)
        monkeypatch.setattr(local_ports, "LAST", port)
        assert free_port() != port
