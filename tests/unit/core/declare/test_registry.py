"""The registry: one name, one tool, and the part of it that a user asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import Field

from pilothouse.core.declare.faults import Envelope
from pilothouse.core.declare.listing import Selection
from pilothouse.core.declare.model import Args, Result
from pilothouse.core.declare.registry import DuplicateName, Registry
from pilothouse.core.declare.resource import Resource, resource
from pilothouse.core.declare.tool import Group, Tool, tool

if TYPE_CHECKING:
    from pilothouse.core.declare.listing import Profile

OBSERVE = Group(name="observe", summary="Watch", envelope=Envelope.CODE)
E2E = Group(name="e2e", summary="Drive", envelope=Envelope.TYPE)
HOUSE = Group(name="house", summary="Ours", envelope=Envelope.TYPE, own=True)


class Nothing(Args):
    pass


class Done(Result):
    done: bool = Field(description="Always true")


def named(name: str, group: Group, profile: Profile = "full") -> Tool:
    async def handler(args: Nothing) -> Done:
        """Do it."""
        return Done(done=True)

    handler.__name__ = name
    return tool(group, effect="read", profile=profile)(handler)


def at(uri: str, group: Group) -> Resource:
    async def reader() -> str:
        """Read it."""
        return ""

    async def one(name: str) -> str:
        """Read one."""
        return name

    return resource(group, uri)(one if "{name}" in uri else reader)


def test_tools_are_listed_in_the_order_in_which_they_were_declared() -> None:
    registry = Registry.of([named("b", E2E), named("a", OBSERVE), named("c", HOUSE)])
    assert list(registry.tools) == ["b", "a", "c"]


def test_two_tools_of_one_name_stop_the_start_and_both_groups_are_named() -> None:
    with pytest.raises(DuplicateName, match="tool find is declared by observe and by e2e"):
        Registry.of([named("find", OBSERVE), named("find", E2E)])


def test_two_resources_of_one_uri_stop_the_start() -> None:
    with pytest.raises(DuplicateName, match="resource cdp://x is declared twice"):
        Registry.of([], [at("cdp://x", OBSERVE), at("cdp://x", E2E)])


@pytest.mark.parametrize(
    ("groups", "profile", "served"),
    [
        (("observe", "e2e"), "full", ["watch", "watch_more", "drive", "drive_more", "status"]),
        (("observe", "e2e"), "default", ["watch", "drive", "status"]),
        (("e2e",), "full", ["drive", "drive_more", "status"]),
        (("e2e",), "default", ["drive", "status"]),
        ((), "default", ["status"]),
    ],
)
def test_groups_and_profile_choose_what_is_served(
    groups: tuple[str, ...], profile: Profile, served: list[str]
) -> None:
    registry = Registry.of(
        [
            named("watch", OBSERVE, "default"),
            named("watch_more", OBSERVE),
            named("drive", E2E, "default"),
            named("drive_more", E2E),
            named("status", HOUSE, "default"),
        ],
        [at("cdp://x", OBSERVE), at("e2e://x", E2E), at("house://x", HOUSE)],
    ).served(Selection(groups, profile))
    assert list(registry.tools) == served
    assert {r.group.name for r in registry.resources} == {*groups, "house"}


def test_a_uri_finds_its_resource_with_the_values_of_its_variables() -> None:
    plain, template = at("cdp://all", OBSERVE), at("cdp://one/{name}", OBSERVE)
    registry = Registry.of([], [plain, template])
    assert registry.resource_for("cdp://all") == (plain, {})
    assert registry.resource_for("cdp://one/a%20b") == (template, {"name": "a b"})
    assert registry.resource_for("cdp://none") is None
