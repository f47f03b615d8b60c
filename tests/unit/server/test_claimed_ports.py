"""A session's debugging port is its agent's alone."""

from pilothouse.server.claimed_ports import DebugPorts


def test_a_port_is_known_to_its_owner_and_closed_to_others() -> None:
    ports = DebugPorts()
    ports.claim("ada", "s1", 9001)
    assert ports.port_of("ada", "s1") == 9001
    assert ports.port_of("bob", "s1") is None
    assert ports.foreign("bob") == {9001}
    assert ports.foreign("ada") == frozenset()


def test_the_users_own_browser_is_open_to_all_who_ask_for_it() -> None:
    ports = DebugPorts()
    ports.claim("ada", "s1", 9222, shared=True)
    assert ports.foreign("bob") == frozenset()
    assert ports.port_of("ada", "s1") == 9222


def test_a_browser_without_a_port_counts_but_closes_nothing() -> None:
    ports = DebugPorts()
    ports.claim("ada", "s1", 0)
    assert len(ports) == 1
    assert ports.port_of("ada", "s1") is None
    assert ports.foreign("bob") == frozenset()


def test_a_released_port_is_nobodys() -> None:
    ports = DebugPorts()
    ports.claim("ada", "s1", 9001)
    ports.release("s1")
    ports.release("s1")
    assert (len(ports), ports.port_of("ada", "s1"), ports.foreign("bob")) == (0, None, frozenset())
