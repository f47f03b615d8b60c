"""From a result or a fault to the two parts of an answer: text and structured content."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pilothouse.core.declare.fence import Story, visible_json, without_lone_surrogates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pilothouse.core.declare.faults import Fault
    from pilothouse.core.declare.model import Block, Result
    from pilothouse.core.declare.tool import Group, Tool
    from pilothouse.core.secrets.redactor import Redactor


@dataclass(frozen=True, slots=True)
class Afterword:
    """A text below an answer that is about something else."""

    text: str
    meta: dict[str, Any]
    """The same for programs, by the name under which `_meta` has it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a call, before any protocol has shaped it."""

    text: str
    structured: dict[str, Any]
    is_error: bool = False
    is_json: bool = False
    """The text is the JSON of the structured content."""
    blocks: tuple[Block, ...] = ()
    afterword: Afterword | None = None


def answer(tool: Tool, result: Result) -> Answer:
    """Return JSON of the structured content for a spec's tool, a short text for one of ours."""
    try:
        structured = result.dump()
        text = _text(tool, result, structured)
        text.encode()
        if tool.own or tool.bare:
            visible_json(structured).encode()  # the text does not show all of it
    except UnicodeEncodeError:
        # JavaScript strings may hold halves of characters, UTF-8 cannot. Cleaned as Python values
        # first: the model's own `dump` decides what is shown and how.
        whole = type(result).model_validate(without_lone_surrogates(result.model_dump()))
        structured = cast("dict[str, Any]", without_lone_surrogates(whole.dump()))
        text = _sendable(_text(tool, result, structured))
    is_json = not (tool.own or tool.bare or structured.keys() & result.unread())
    return Answer(text, structured, is_json=is_json, blocks=result.blocks())


def _text(tool: Tool, result: Result, structured: dict[str, Any]) -> str:
    if not tool.own:
        read = {name: value for name, value in structured.items() if name not in result.unread()}
        return visible_json(read[tool.bare] if tool.bare else read)
    story = Story()
    _tell(result, story, structured)
    return _sendable(story.text(secrets.token_urlsafe(16)))


def _tell(result: Result, story: Story, structured: dict[str, Any]) -> None:
    try:
        result.tell(story)
    except UnicodeEncodeError:
        story.quote("result", structured)


def failure(
    group: Group, fault: Fault, redactor: Redactor, context: Mapping[str, object]
) -> Answer:
    """Return a fault in the form of the group's spec, masked like everything that is shown."""
    error = redactor.texts(fault.render(group.envelope, context))
    structured = without_lone_surrogates({"error": error, **redactor.texts(fault.beside)})
    if not group.own:
        text = visible_json(structured)
        for part, more in fault.inline.items():
            structured[part] = {**structured[part], **more}
        return Answer(text, structured, is_error=True, blocks=fault.blocks)
    story = Story()
    story.say(f"Failed: {fault.code}.")
    if fault.hint:
        hint = redactor.text(fault.hint)
        story.say(f"Next: {hint}" if hint[-1] in ".?!" else f"Next: {hint}.")
    # The message may name what a page wrote (a title, a selector, a URL): it stands in the fence.
    story.quote("error", structured["error"])
    return Answer(_sendable(story.text(secrets.token_urlsafe(16))), structured, is_error=True)


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
