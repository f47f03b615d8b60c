"""Addresses are looked up once, and every one of them is judged."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import TYPE_CHECKING

import pytest

from pilothouse.core.net.url_policy import Policy, canonical_host
from pilothouse.e2e.egress_proxy.app_addresses import (
    LOCALHOST,
    judged_addresses,
    known_addresses,
    resolve_name,
)
from pilothouse.e2e.model import UrlNotAllowed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pilothouse.core.net.url_policy import Address

pytestmark = pytest.mark.anyio

PUBLIC, METADATA = ip_address("93.184.216.34"), ip_address("169.254.169.254")


class Names:
    """A resolver whose answers come in turn; the last one again and again."""

    def __init__(self, *answers: Sequence[Address]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Sequence[Address]:
        self.asked.append(name)
        if not self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize("allowed_hosts", [None, ("app.example",)])
async def test_what_was_judged_is_what_comes_back(allowed_hosts: tuple[str, ...] | None) -> None:
    names = Names([PUBLIC], [METADATA])
    policy = Policy(allowed_hosts=allowed_hosts)
    assert await judged_addresses("http://app.example/", policy, names) == (PUBLIC,)
    assert names.asked == ["app.example"]
    with pytest.raises(UrlNotAllowed) as refused:
        await judged_addresses("http://app.example/", policy, names)
    assert refused.value.details["rule"] == "link_local"


async def test_one_address_among_many_that_may_not_be_visited_refuses_all() -> None:
    for others in ([METADATA, PUBLIC], [PUBLIC, METADATA]):
        with pytest.raises(UrlNotAllowed):
            await judged_addresses("http://app.example/", Policy(), Names(others))


async def test_an_own_name_is_not_looked_up_again() -> None:
    names = Names([METADATA])
    policy = Policy(
        own_origins=frozenset({("http", "app.example", 80)}),
        own_addresses={"app.example": (PUBLIC,)},
    )
    assert await judged_addresses("http://app.example/x", policy, names) == (PUBLIC,)
    assert names.asked == []


async def test_only_names_that_could_lead_anywhere_are_looked_up() -> None:
    names = Names([METADATA])
    policy = Policy(development=True)
    for url in ("http://localhost:3000/", "http://app.localhost/", "http://127.0.0.1:3000/"):
        found = await judged_addresses(url, policy, names)
        assert set(found) <= {*LOCALHOST}, url
        assert found, url
    assert await judged_addresses("about:blank", policy, names) == ()
    for url in ("http://10.0.0.1/", "file:///etc/passwd", "http://metadata.google.internal/"):
        with pytest.raises(UrlNotAllowed):
            await judged_addresses(url, policy, names)
    assert names.asked == []


async def test_a_name_that_nobody_knows_has_no_address_yet() -> None:
    assert await judged_addresses("http://app.example/", Policy(), Names()) == ()
    assert await known_addresses(canonical_host("app.example"), Names()) == ()
    assert await resolve_name("127.0.0.1") == (ip_address("127.0.0.1"),)
