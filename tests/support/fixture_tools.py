"""Tools for testing the server itself: one group for each error form, and awkward behaviour.

They are declared like every tool of the product and served by the product's own command, see
`fixture_app.py`; only what they do is made up.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import Field

from pilothouse.core.declare.faults import Envelope, Fault
from pilothouse.core.declare.model import Args, Image, PageText, Result, SnakeArgs, SnakeResult
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Example, Group, Progress, tool
from pilothouse.server.groups import GroupSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pilothouse.core.declare.fence import Story
    from pilothouse.server.session import Session

CODE = Group(name="observe", summary="Answers like the observer's spec", envelope=Envelope.CODE)
TYPE = Group(name="e2e", summary="Answers like the e2e spec", envelope=Envelope.TYPE, camel=True)
NUMBER = Group(name="intercept", summary="Answers like the proxy's spec", envelope=Envelope.NUMBER)
OWN = Group(name="house", summary="Answers like our own tools", envelope=Envelope.TYPE, own=True)


class Missing(Fault):
    """Nothing is stored under that name."""

    code = "target_not_found"
    number = -32003
    status = 404


class Undeclared(Fault):
    """A fault that no declaration below names."""

    code = "undeclared"


class EchoArgs(Args):
    text: str = Field(description="What to say")
    times: int = Field(default=1, ge=1, le=1000, description="How often")
    loud: bool = Field(default=False, description="In capitals")
    mood: Literal["calm", "glad"] = Field(default="calm", description="How it is meant")
    target_id: str | None = Field(default=None, description="Optional, and absent by default")
    session_id: str | None = Field(
        default=None, description="Handle", json_schema_extra={"x-mcp-header": "Session"}
    )


class Echo(Result):
    said: list[str] = Field(description="What was said")
    mood: str = Field(description="How it was meant")
    nothing: str | None = Field(default=None, description="Left out when it is null")


@tool(
    CODE,
    effect="read",
    raises=(Missing,),
    profile="default",
    examples=(Example(title="Say it twice", args={"text": "hi", "times": 2}),),
)
async def echo_code(args: EchoArgs) -> Echo:
    """Say a text back."""
    if args.text == "missing":
        raise Missing(
            "No target matches: missing", hint="call echo_code with another text", port=9222
        )
    if args.text == "undeclared":
        raise Undeclared("this fault is not declared")
    if args.text == "crash":
        raise RuntimeError("secret detail that only the log may have")
    text = args.text.upper() if args.loud else args.text
    return Echo(said=[text] * args.times, mood=args.mood)


@tool(CODE, effect="read", bare="said")
async def echo_bare(args: EchoArgs) -> Echo:
    """Say a text back as a bare array in the text part."""
    return Echo(said=[args.text] * args.times, mood=args.mood)


@tool(TYPE, effect="destroy", raises=(Missing,), open_world=True)
async def echo_type(args: EchoArgs) -> Echo:
    """Say a text back in the e2e form."""
    if args.text == "missing":
        raise Missing("gone", hint="call startSession first", sessionId="abc", ignored=None)
    return Echo(said=[args.text], mood=args.mood)


class NumberArgs(SnakeArgs):
    packet_id: int = Field(ge=1, description="Number of a packet")


class Packet(SnakeResult):
    packet_id: int = Field(description="Its number")


@tool(NUMBER, effect="write", idempotent=True, raises=(Missing,))
async def echo_number(args: NumberArgs) -> Packet:
    """Say a number back in the proxy's form."""
    if args.packet_id == 404:
        raise Missing("no packet 404")
    return Packet(packet_id=args.packet_id)


class Nothing(Args):
    pass


class Done(Result):
    done: bool = Field(default=True, description="Always true")


class CountArgs(Args):
    count: int = Field(default=3, ge=0, le=1_000_000, description="How many")


@tool(TYPE, effect="read")
async def long_work(args: CountArgs, progress: Progress) -> Done:
    """Report progress at each step."""
    for step in range(args.count):
        await progress(step + 1, args.count, f"step {step + 1}")
    return Done()


@tool(TYPE, effect="write")
async def make_noise(args: Nothing) -> Done:
    """Write to stdout in every way there is: print, the descriptor, a child and its shell."""
    print("noise from print")  # noqa: T201
    sys.stdout.flush()
    os.write(1, b"noise from fd 1\n")
    await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", "print('noise from a child')"], check=True
    )
    process = await asyncio.create_subprocess_shell("echo noise from a shell; cat")
    await process.wait()
    return Done()


class Counter(Protocol):
    """Port: a number that the session keeps."""

    value: int

    def add(self, by: int) -> float: ...


class SessionCounter:
    def __init__(self, session: Session) -> None:
        self.value = 0
        self._session = session

    def add(self, by: int) -> float:
        """Add one by one, telling of each; returns the seconds that took."""
        started = time.perf_counter()
        for _ in range(by):
            self.value += 1
            self._session.changed("test://counter")
        return time.perf_counter() - started


@asynccontextmanager
async def open_counter(session: Session) -> AsyncIterator[SessionCounter]:
    counter = SessionCounter(session)
    yield counter
    session.changed("test://closed")


class Added(Result):
    value: int = Field(description="The counter's value")
    seconds: float = Field(description="How long the producer was busy")


@tool(TYPE, effect="write")
async def add(args: CountArgs, counter: Counter) -> Added:
    """Add to this session's counter and tell subscribers of each step."""
    seconds = counter.add(args.count)
    return Added(value=counter.value, seconds=seconds)


@resource(TYPE, "test://counter")
async def counter_value(counter: Counter) -> str:
    """The session's counter."""
    return f'{{"value": {counter.value}}}'


@resource(TYPE, "test://echo/{word}", mime_type="text/plain")
async def echo_word(word: str) -> str:
    """The word in the URI."""
    if word == "missing":
        raise Missing("no such word")
    return word


@resource(CODE, "test://bytes", mime_type="application/octet-stream")
async def some_bytes() -> bytes:
    """All byte values."""
    return bytes(range(256))


class PageArgs(Args):
    text: str = Field(description="What a page wrote")


class Page(Result):
    title: PageText = Field(description="Title as the page has it")
    lines: list[PageText] = Field(description="Its lines")

    def tell(self, story: Story) -> None:
        story.say(f"The page has {len(self.lines)} line(s).")
        story.quote("title", self.title)
        story.quote("lines", self.lines)


@tool(OWN, effect="read", profile="default")
async def show_page(args: PageArgs) -> Page:
    """Tell about text of a page, as tools of our own do."""
    return Page(title=PageText(args.text[:80]), lines=[PageText(x) for x in args.text.split("\n")])


@tool(OWN, effect="read", raises=(Missing,))
async def fail_page(args: PageArgs) -> Page:
    """Fail with a message that holds text of a page."""
    raise Missing(f"no element {args.text}", hint="call show_page", selector=args.text)


class LeakyPage(Page):
    def tell(self, story: Story) -> None:
        story.say(f"The title is {self.title}")


@tool(OWN, effect="read")
async def leak_page(args: PageArgs) -> LeakyPage:
    """Make the mistake of writing text of a page into a sentence of ours."""
    return LeakyPage(title=PageText(args.text), lines=[])


class Picture(Result):
    width: int = Field(description="Pixels")

    def blocks(self) -> tuple[Image, ...]:
        return (Image(b"\x89PNG\r\n\x1a\n"),)


@tool(TYPE, effect="read")
async def picture(args: Nothing) -> Picture:
    """Return a picture beside the text."""
    return Picture(width=1)


class Anything(Result):
    value: Any = Field(description="Whatever was asked for")


@tool(TYPE, effect="read")
async def lone_surrogate(args: Nothing) -> Anything:
    """Return text that is half of a character, as JavaScript strings can be."""
    return Anything(value={"a\ud800": ["b\udfff", 1]})


class ForeverArgs(Args):
    pass


@tool(TYPE, effect="read")
async def forever(args: ForeverArgs, progress: Progress) -> Done:
    """Tell that it has begun, and never end; the client cancels."""
    await progress(1)
    await asyncio.Event().wait()
    return Done()


GROUP_SPEC = GroupSpec(
    tools=(
        echo_code,
        echo_bare,
        echo_type,
        echo_number,
        long_work,
        make_noise,
        add,
        show_page,
        fail_page,
        leak_page,
        picture,
        lone_surrogate,
        forever,
    ),
    resources=(counter_value, echo_word, some_bytes),
    providers={Counter: open_counter},
)
