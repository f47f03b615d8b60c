"""Declaring a tool: what the declaration gives, and which mistakes stop the import."""

from __future__ import annotations

from typing import Any, Protocol

import pytest
from pydantic import BaseModel, Field

from pilothouse.core.declare.faults import Envelope, Fault
from pilothouse.core.declare.model import Args, Result, SnakeArgs
from pilothouse.core.declare.tool import Effect, Example, Group, Progress, tool

SNAKE = Group(name="observe", summary="Snake names", envelope=Envelope.CODE)
CAMEL = Group(name="e2e", summary="Camel names", envelope=Envelope.TYPE, camel=True)


class Gone(Fault):
    """It is gone."""

    code = "gone"


class Clock(Protocol):
    """Port: tells the time."""


class Ask(Args):
    target_id: str = Field(description="Which one")


class Found(Result):
    nodes: list[str] = Field(description="What was found")


class Undescribed(Args):
    text: str


async def find_nodes(args: Ask, clock: Clock, progress: Progress) -> Found:
    """Find nodes.

    The second paragraph is for whoever reads on.
    """
    return Found(nodes=[args.target_id])


def test_a_tool_is_what_its_handler_says() -> None:
    example = Example(title="One", args={"targetId": "a"})
    made = tool(SNAKE, effect="read", raises=(Gone,), examples=(example,), bare="nodes")(find_nodes)
    assert made.name == "find_nodes"
    assert made.group is SNAKE
    assert made.summary == "Find nodes."
    assert made.description == "Find nodes.\n\nThe second paragraph is for whoever reads on."
    assert made.args is Ask
    assert made.result is Found
    assert made.ports == {"clock": Clock, "progress": Progress}
    assert made.raises == (Gone,)
    assert made.examples == (example,)
    assert made.profile == "full"
    assert made.bare == "nodes"
    assert made.handler is find_nodes
    assert list(made.input_schema["properties"]) == ["targetId"]
    assert list(made.output_schema["properties"]) == ["nodes"]


@pytest.mark.parametrize(
    ("function", "served"),
    [
        ("start_session", "startSession"),
        ("click", "click"),
        ("get_DOM_tree", "getDomTree"),
        ("type_", "type"),
        ("wait_for_url_change", "waitForUrlChange"),
    ],
)
def test_names_are_camel_case_where_the_spec_has_them_so(function: str, served: str) -> None:
    async def handler(args: Ask) -> Found:
        """Do it."""
        return Found(nodes=[])

    handler.__name__ = function
    assert tool(CAMEL, effect="read")(handler).name == served
    assert tool(SNAKE, effect="read")(handler).name == function


@pytest.mark.parametrize(
    ("effect", "idempotent", "hints"),
    [
        ("read", None, (True, False, True)),
        ("write", None, (False, False, False)),
        ("write", True, (False, False, True)),
        ("destroy", None, (False, True, False)),
        ("read", False, (True, False, False)),
    ],
)
def test_annotations_follow_from_the_effect(
    effect: Effect, idempotent: bool | None, hints: tuple[bool, bool, bool]
) -> None:
    made = tool(SNAKE, effect=effect, idempotent=idempotent, open_world=True)(find_nodes)
    assert made.annotations == {
        "readOnlyHint": hints[0],
        "destructiveHint": hints[1],
        "idempotentHint": hints[2],
        "openWorldHint": True,
    }


def refused(handler: Any, message: str, **options: Any) -> None:
    with pytest.raises(TypeError, match=message):
        tool(SNAKE, effect="read", **options)(handler)


def test_a_handler_without_a_docstring_is_refused() -> None:
    async def silent(args: Ask) -> Found:
        return Found(nodes=[])

    refused(silent, "silent needs a docstring")


def test_an_argument_without_a_description_is_refused_by_name() -> None:
    async def vague(args: Undescribed) -> Found:
        """Say little."""
        return Found(nodes=[])

    refused(vague, "vague: argument text needs a description")


def test_a_result_that_is_no_result_model_is_refused() -> None:
    class Plain(BaseModel):
        pass

    async def gives_a_dict(args: Ask) -> dict[str, str]:
        """Give a dict."""
        return {}

    async def gives_nothing_known(args: Ask):  # type: ignore[no-untyped-def]  # that is the point
        """Give something."""

    async def gives_a_plain_model(args: Ask) -> Plain:
        """Give a model that cannot be told."""
        return Plain()

    gives_a_plain_model.__annotations__["return"] = Plain
    for handler in (gives_a_dict, gives_nothing_known, gives_a_plain_model):
        refused(handler, "the return annotation must be a Result")


def test_a_first_parameter_that_is_no_model_is_refused() -> None:
    async def takes_text(text: str) -> Found:
        """Take a text."""
        return Found(nodes=[])

    async def takes_nothing() -> Found:
        """Take nothing."""
        return Found(nodes=[])

    for handler in (takes_text, takes_nothing):
        refused(handler, "the first parameter must be the argument model")


def test_a_bare_field_that_the_result_lacks_is_refused() -> None:
    refused(find_nodes, "its result has no field leaves", bare="leaves")


def test_a_port_without_a_type_is_refused_like_every_other_mistake() -> None:
    async def untyped(args: Ask, port) -> Found:  # type: ignore[no-untyped-def]  # that is the point
        """Ask for something."""
        return Found(nodes=[])

    refused(untyped, "port")


def test_declaring_registers_nothing_and_may_be_repeated() -> None:
    first, second = tool(SNAKE, effect="read")(find_nodes), tool(SNAKE, effect="read")(find_nodes)
    assert first == second
    assert first is not second


def test_snake_arguments_stay_snake_on_the_wire() -> None:
    class Packet(SnakeArgs):
        packet_id: int = Field(description="Its number")

    async def get_packet(args: Packet) -> Found:
        """Get one."""
        return Found(nodes=[])

    get_packet.__annotations__["args"] = Packet
    made = tool(SNAKE, effect="read")(get_packet)
    assert list(made.input_schema["properties"]) == ["packet_id"]
