"""Fixtures that Pilothouse can declare itself: the suite then tests our own way to an answer."""

import base64

import anyio
from pydantic import Field

from pilothouse.core.declare.faults import Envelope, Fault
from pilothouse.core.declare.fence import Story
from pilothouse.core.declare.model import Args, Image, Result
from pilothouse.core.declare.resource import resource
from pilothouse.core.declare.tool import Group, Progress, tool
from pilothouse.server.groups import GroupSpec
from pilothouse.server.session import Session

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
"""A picture of one pixel."""
STEP_S = 0.05
"""The pause that the suite wants between two notifications."""

SUITE = Group(
    name="house", summary="What the conformance suite calls", envelope=Envelope.TYPE, own=True
)


class Nothing(Args):
    pass


class Said(Result):
    text: str = Field(description="A sentence")

    def tell(self, story: Story) -> None:
        story.say(self.text)


class Pictured(Said):
    def blocks(self) -> tuple[Image, ...]:
        return (Image(PIXEL),)


class Intended(Fault):
    """The tool was made to fail."""

    code = "intended"


@tool(SUITE, effect="read", profile="default")
async def test_simple_text(args: Nothing) -> Said:
    """Answer one sentence."""
    return Said(text="This is a simple text response for testing.")


@tool(SUITE, effect="read", profile="default")
async def test_image_content(args: Nothing) -> Pictured:
    """Answer a picture."""
    return Pictured(text="One pixel.")


@tool(SUITE, effect="read", profile="default", raises=(Intended,))
async def test_error_handling(args: Nothing) -> Said:
    """Fail."""
    raise Intended("This tool intentionally returns an error for testing")


@tool(SUITE, effect="read", profile="default")
async def test_tool_with_progress(args: Nothing, progress: Progress) -> Said:
    """Tell of progress three times."""
    for done in (0, 50, 100):
        await progress(done, 100)
        await anyio.sleep(STEP_S)
    return Said(text="Done.")


class HeaderArgs(Args):
    region: str = Field(description="Where to look", json_schema_extra={"x-mcp-header": "Region"})


@tool(SUITE, effect="read", profile="default")
async def test_x_mcp_header(args: HeaderArgs) -> Said:
    """Take an argument that a 2026 client repeats in a header."""
    return Said(text=f"Looked in {args.region}.")


@tool(SUITE, effect="write", profile="default")
async def test_trigger_tool_change(args: Nothing, session: Session) -> Said:
    """Tell listeners that the list of tools changed."""
    session.changed("tools/list")
    return Said(text="Told.")


@tool(SUITE, effect="write", profile="default")
async def test_trigger_prompt_change(args: Nothing, session: Session) -> Said:
    """Tell listeners that the list of prompts changed."""
    session.changed("prompts/list")
    return Said(text="Told.")


@resource(SUITE, "test://static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text that never changes."""
    return "This is the content of the static text resource."


@resource(SUITE, "test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A picture that never changes."""
    return PIXEL


@resource(SUITE, "test://watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text that clients subscribe to."""
    return "Watched."


@resource(SUITE, "test://template/{id}/data")
async def template_data(id: str) -> str:
    """Data that names the id it was asked for."""
    return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


GROUP_SPEC = GroupSpec(
    tools=(
        test_simple_text,
        test_image_content,
        test_error_handling,
        test_tool_with_progress,
        test_x_mcp_header,
        test_trigger_tool_change,
        test_trigger_prompt_change,
    ),
    resources=(static_text, static_binary, watched_resource, template_data),
)
