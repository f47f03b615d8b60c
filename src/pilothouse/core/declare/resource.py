"""A resource is one declared value, like a tool: a URI or a URI template with its reader."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_type_hints
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from pilothouse.core.declare.tool import Group

_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource, or a template of resources where its `uri` has `{variables}`."""

    uri: str
    name: str
    group: Group
    description: str
    mime_type: str
    ports: Mapping[str, type]
    reader: Callable[..., Awaitable[str | bytes]]
    pattern: re.Pattern[str]

    @property
    def is_template(self) -> bool:
        return bool(self.pattern.groupindex)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables of a concrete URI, None when it is not one of this resource."""
        found = self.pattern.fullmatch(uri)
        return None if found is None else {k: unquote(v) for k, v in found.groupdict().items()}


def resource(
    group: Group, uri: str, *, mime_type: str = "application/json"
) -> Callable[[Callable[..., Awaitable[str | bytes]]], Resource]:
    """Make a `Resource` of a reader: parameters named like the URI's variables get their values,
    all others are ports found by their type.

    Raises:
        TypeError: the declaration is incomplete; a mistake of ours, found at import.
    """
    variables = _VARIABLE.findall(uri)
    # A variable is one path segment: a slash in it would let one template swallow another.
    literal_parts = _VARIABLE.split(uri)[::2]
    pattern = "".join(
        re.escape(part) + (f"(?P<{variables[i]}>[^/]+)" if i < len(variables) else "")
        for i, part in enumerate(literal_parts)
    )

    def make(reader: Callable[..., Awaitable[str | bytes]]) -> Resource:
        description = inspect.getdoc(reader)
        if not description:
            raise TypeError(f"{reader.__name__} needs a docstring: it is what a model reads")
        names = list(inspect.signature(reader).parameters)
        missing = set(variables) - set(names)
        if missing:
            raise TypeError(f"{reader.__name__} takes no {', '.join(sorted(missing))}")
        hints = get_type_hints(reader)
        untyped = [name for name in names if name not in hints]
        if untyped:
            raise TypeError(f"{reader.__name__}: {', '.join(untyped)} needs a type")
        return Resource(
            uri=uri,
            name=reader.__name__,
            group=group,
            description=description,
            mime_type=mime_type,
            ports={name: hints[name] for name in names if name not in variables},
            reader=reader,
            pattern=re.compile(pattern),
        )

    return make
