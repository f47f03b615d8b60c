"""Edits that a resend makes in a message: text by regular expression, and headers.

An edit is read once, when a plan arrives, and applied to each send with that send's variables.
Everything that it does not change keeps its bytes, whatever they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from pilothouse.core.declare.faults import InvalidInput
from pilothouse.core.regex import BadPattern, compile_pattern
from pilothouse.intercept.config.variables import fill
from pilothouse.intercept.replay import recode
from pilothouse.intercept.replay.bounded_regex import TooCostly, check_growth, matches
from pilothouse.intercept.replay.http1 import (
    HEADER_NAME,
    NOT_IN_VALUE,
    parse_head,
    split_message,
    with_right_length,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

type Direction = Literal["request", "response"]

TARGETS = ("request", "response", "both")
TYPES = ("regex_replace", "header_add", "header_modify")
MOST_EDITS = 50
_LONGEST_TEXT = 64 * 1024
_REFERENCE = re.compile(r"\\([\\$])|[\\$](\d{1,2})")


@dataclass(frozen=True, slots=True)
class Message:
    """One direction of an exchange. `head` is empty for what has no headers."""

    head: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class RegexReplace:
    """Edit that replaces every match in the message as text, head and decoded body."""

    pattern: str
    replacement: str
    target: str = "request"

    def apply(self, message: Message, values: Mapping[str, str]) -> tuple[Message, int]:
        """Return the message with its matches replaced, and how many there were."""
        body, codings = recode.decode(message.head, message.body)
        before = message.head + body
        after, count = self._replaced(before, values)
        if after == before:
            return message, count
        head, new_body = split_message(after) if message.head else (b"", after)
        if new_body == body:
            return Message(head, message.body), count
        return Message(head, recode.encode(new_body, codings, like=message.body)), count

    def first_match(self, message: Message) -> str | None:
        """Return what it would replace first, None if nothing."""
        body, _ = recode.decode(message.head, message.body)
        text, charset = _text(message.head + body)
        found = _compiled(self.pattern, charset).search(text)
        return None if found is None else found[0].encode(charset).decode("utf-8", "replace")

    def _replaced(self, message: bytes, values: Mapping[str, str]) -> tuple[bytes, int]:
        text, charset = _text(message)
        pattern = _compiled(self.pattern, charset)
        parts = [
            part if isinstance(part, int) else _seen_as(fill(part, values), charset)
            for part in _template(self.replacement, pattern.groups)
        ]

        empty_at: set[int] = set()

        def written(match: Any) -> str:
            if match.start() == match.end():
                # The library reports an empty match twice where it had to look ahead for it.
                if match.start() in empty_at:
                    return ""
                empty_at.add(match.start())
            # A group that took no part in the match is None.
            return "".join((match[p] or "") if isinstance(p, int) else p for p in parts)

        pieces, end, count, length = [], 0, 0, 0
        try:
            for match in matches(pattern, text):
                new = written(match)
                length += match.start() - end + len(new)
                check_growth(len(text), length)
                pieces += [text[end : match.start()], new]
                end, count = match.end(), count + 1
        except TooCostly as problem:
            raise InvalidInput(
                f"pattern: {self.pattern[:80]!r} cannot be applied to this message: {problem}",
                hint="give a simpler pattern or a shorter replacement",
                field="pattern",
                expected="an edit that is quick and leaves a message of a sensible size",
                received=self.pattern[:200],
            ) from None
        pieces.append(text[end:])
        return "".join(pieces).encode(charset), count


@dataclass(frozen=True, slots=True)
class SetHeader:
    """Edit that leaves one header of that name, or adds one if duplicates are allowed."""

    name: str
    value: str
    target: str = "request"
    keep_spelling: bool = False
    """True if the name stays as the message spells it."""

    def apply(
        self, message: Message, values: Mapping[str, str], *, allow_duplicates: bool
    ) -> Message:
        head, value = parse_head(message.head), fill(self.value, values).encode()
        if allow_duplicates:
            return replace(message, head=head.adding(self.name, value).raw)
        new = head.setting(self.name, value, keep_spelling=self.keep_spelling)
        return replace(message, head=new.raw)


type Edit = RegexReplace | SetHeader


@dataclass(slots=True)
class Edited:
    """Outcome of all edits."""

    message: Message
    is_changed: bool = False
    counts: list[int] = field(default_factory=list)
    """Number of places that each edit changed."""


def apply(
    edits: Sequence[Edit],
    message: Message,
    direction: Direction,
    values: Mapping[str, str],
    *,
    allow_duplicates: bool = False,
) -> Edited:
    """Make every edit of the message's direction, in order, and a right Content-Length."""
    edited = Edited(message)
    for edit in edits:
        count = 0
        if edit.target not in (direction, "both"):
            pass
        elif isinstance(edit, RegexReplace):
            edited.message, count = edit.apply(edited.message, values)
        elif message.head:
            edited.message = edit.apply(edited.message, values, allow_duplicates=allow_duplicates)
            count = 1
        edited.counts.append(count)
    new = edited.message
    if message.head and new != message:
        head = with_right_length(
            parse_head(new.head), new.body, parse_head(message.head), message.body
        )
        edited.message = Message(head.raw, new.body)
    edited.is_changed = edited.message != message
    return edited


def parse_edits(raw: object, field: str = "modifications") -> tuple[Edit, ...]:
    """Parse edits; raises InvalidInput with the field, what it should be and what it is."""
    if not isinstance(raw, list) or len(raw) > MOST_EDITS:
        raise bad(field, f"a list of at most {MOST_EDITS} objects", raw)
    return tuple(_edit(one, f"{field}[{place}]") for place, one in enumerate(raw))


def regex_edit(pattern: object, replacement: object, target: object, field: str) -> RegexReplace:
    """Make a replacement; raises InvalidInput."""
    if not isinstance(pattern, str) or not pattern:
        raise bad(f"{field}.pattern", "an RE2 pattern", pattern)
    try:
        compile_pattern(pattern)
        # A body that is no UTF-8 is matched by another spelling of the same pattern.
        compile_pattern(_seen_as(pattern, "latin-1"))
    except BadPattern as problem:
        raise InvalidInput(
            f"{field}.pattern: {problem}",
            hint="RE2 has no look-around and no back-references in a pattern",
            field=f"{field}.pattern",
            expected="an RE2 pattern",
            received=pattern[:200],
        ) from None
    return RegexReplace(
        pattern, text_of(replacement, f"{field}.replacement"), target_of(target, field)
    )


def bad(field: str, expected: str, received: object, hint: str = "") -> InvalidInput:
    """Return the fault that names a field of a plan."""
    shown = repr(received)
    shown = shown if len(shown) <= 200 else shown[:200] + "…"
    return InvalidInput(
        f"{field} must be {expected}, not {shown}",
        hint=hint,
        field=field,
        expected=expected,
        received=shown,
    )


def text_of(value: object, field: str) -> str:
    """Return a text that can be sent; raises InvalidInput."""
    expected = f"a text of at most {_LONGEST_TEXT} characters"
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise bad(field, expected, value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise bad(field, "a text without lone surrogates", value) from None
    return value


def target_of(value: object, field: str) -> str:
    if value not in TARGETS:
        raise bad(f"{field}.target", f"one of {', '.join(TARGETS)}", value)
    return str(value)


def _edit(raw: object, field: str) -> Edit:
    if not isinstance(raw, dict):
        raise bad(field, "an object with a type", raw)
    kind = raw.get("type")
    if kind not in TYPES:
        raise bad(f"{field}.type", f"one of {', '.join(TYPES)}", kind)
    own = {"pattern"} if kind == "regex_replace" else {"name"}
    known = {"type", "target", "replacement", "value", *own}
    if unknown := sorted(map(str, raw.keys() - known)):
        raise bad(f"{field}.{unknown[0]}", f"absent: {kind} has {_listed(known)}", raw[unknown[0]])
    target = raw.get("target", "request")
    if kind == "regex_replace":
        return regex_edit(raw.get("pattern"), _new_text(raw, "replacement", field), target, field)
    name, value = raw.get("name"), text_of(_new_text(raw, "value", field), f"{field}.value")
    if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
        raise bad(f"{field}.name", "a header's name, without blanks or a colon", name)
    if NOT_IN_VALUE & set(value):
        raise bad(
            f"{field}.value",
            "one line",
            value,
            hint="regex_replace can write anything anywhere, line ends too",
        )
    return SetHeader(name, value, target_of(target, field), keep_spelling=kind == "header_modify")


def _new_text(raw: dict[str, Any], name: str, field: str) -> object:
    """Return `replacement` or `value`, which are two names of one thing."""
    given = [key for key in ("replacement", "value") if key in raw]
    if len(given) != 1:
        raise bad(f"{field}.{name}", "given once, as replacement or as value", given)
    return raw[given[0]]


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _text(message: bytes) -> tuple[str, str]:
    """Return the bytes as text that becomes the same bytes again, and the charset for that."""
    try:
        return message.decode(), "utf-8"
    except UnicodeDecodeError:
        return message.decode("latin-1"), "latin-1"


def _seen_as(text: str, charset: str) -> str:
    """Return how the text's UTF-8 bytes look in that charset."""
    return text.encode().decode(charset)


def _compiled(pattern: str, charset: str) -> Any:
    return compile_pattern(_seen_as(pattern, charset))


def _template(replacement: str, groups: int) -> list[str | int]:
    r"""Parse into texts and numbers of groups: `$1` and `\1` where the pattern has such a group.

    `\\` and `\$` are a plain backslash and a plain dollar.
    """
    parts: list[str | int] = []
    done = 0
    for found in _REFERENCE.finditer(replacement):
        escaped, number = found.groups()
        digits = number if number and int(number) <= groups else (number or "")[:1]
        if escaped or (digits and int(digits) <= groups):
            parts += (replacement[done : found.start()], escaped or int(digits))
            done = found.start() + (2 if escaped else 1 + len(digits))
    return [*parts, replacement[done:]]
