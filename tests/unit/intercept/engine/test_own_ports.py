"""Which addresses lead to this machine."""

from __future__ import annotations

import pytest

from pilothouse.core.net.url_policy import Policy
from pilothouse.intercept.engine.own_ports import OwnPortGuard

pytestmark = pytest.mark.anyio


def guard(policy: Policy | None = None) -> OwnPortGuard:
    made = OwnPortGuard(lambda: frozenset({8080}), policy or Policy(development=True))
    made.configure(blocked=[4000, 4001], allowed=[4001])
    return made


def test_own_and_blocked_ports_concern_it_and_allowed_ones_do_not() -> None:
    assert [guard().concerns(port) for port in (4000, 8080, 4001, 80)] == [True, True, False, False]


def test_what_a_proxy_behind_judges_is_left_to_it_but_not_our_own_listeners() -> None:
    judged = [guard().concerns(port, is_judged=True) for port in (4000, 8080, 4001, 80)]
    assert judged == [False, True, False, False]


@pytest.mark.parametrize(
    "host",
    "localhost LOCALHOST. a.localhost 127.0.0.1 127.1 127.99.0.1 2130706433 0x7f000001 0177.0.0.1"
    " 0.0.0.0 0 ::1 [::1] :: ::ffff:127.0.0.1 ::ffff:7f00:1 \uff11\uff12\uff17.1 a..b".split(),
)
async def test_every_spelling_of_this_machine_leads_home(host: str) -> None:
    assert await guard().leads_home(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "1.1.1.1", "2606:4700::1111", "nobody.invalid"])
async def test_other_machines_do_not(host: str) -> None:
    assert not await guard().leads_home(host)


async def test_what_is_sent_again_goes_to_addresses_that_were_judged() -> None:
    judge = guard()
    assert await judge.addresses("127.0.0.1", 80, is_pages=True) == ["127.0.0.1"]
    assert set(await judge.addresses("localhost", 80, is_pages=True)) <= {"127.0.0.1", "::1"}
    assert await judge.addresses("10.0.0.1", 4000, is_pages=False) == ["10.0.0.1"]
    for host in ("127.0.0.1", "localhost", "::1"):
        with pytest.raises(PermissionError, match="nothing may be sent"):
            await judge.addresses(host, 4000, is_pages=False)
    # A page's own browser would not have been let there.
    for host in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "10.0.0.1", "fd00::1"):
        with pytest.raises(PermissionError, match="nothing may be sent"):
            await judge.addresses(host, 80, is_pages=True)
        assert await judge.addresses(host, 80, is_pages=False) == [host]


async def test_what_a_page_had_asked_for_is_judged_by_the_servers_own_settings() -> None:
    listed = guard(Policy(allowed_hosts=("10.0.0.1",), development=True))
    assert await listed.addresses("10.0.0.1", 80, is_pages=True) == ["10.0.0.1"]
    for judge, host in (
        (listed, "10.0.0.2"),
        (listed, "127.0.0.1"),
        (guard(Policy()), "127.0.0.1"),
    ):
        with pytest.raises(PermissionError, match="nothing may be sent"):
            await judge.addresses(host, 80, is_pages=True)
