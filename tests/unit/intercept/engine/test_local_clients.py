"""A client of whom nothing is known yet is refused, also where something goes wrong meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.intercept.engine import local_clients
from pilothouse.intercept.engine.listen_modes import Wanted
from pilothouse.intercept.engine.listeners import Listener, ProxyListeners
from pilothouse.intercept.engine.local_clients import LocalClients
from pilothouse.machine.net.local_users import Caller


class Client:
    peername = sockname = ("127.0.0.1", 1)
    transport_protocol = "tcp"
    error: str | None = None


class Broken(ProxyListeners):
    def __init__(self) -> None:
        pass

    def of(self, client: Any) -> Listener:
        raise RuntimeError("broken")


class One(Broken):
    def of(self, client: Any) -> Listener:
        return Listener(Wanted(1, 0, "HTTP_PROXY"))


def test_a_client_stays_refused_where_its_check_fails() -> None:
    client: Any = Client()
    with pytest.raises(RuntimeError):
        LocalClients(Broken(), lambda: None, asks_everybody=False).client_connected(client)
    assert client.error


@pytest.mark.parametrize("caller", Caller)
def test_another_user_is_refused_and_nobody_else_yet(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_clients, "caller_at", lambda *_: caller)
    client: Any = Client()
    LocalClients(One(), lambda: None, asks_everybody=False).client_connected(client)
    assert bool(client.error) is (caller is Caller.OTHER)
