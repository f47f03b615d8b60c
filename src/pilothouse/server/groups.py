"""What the groups bring along, known by name at the start and imported when first used.

An agent asks for the list of tools at every start and calls a few of them later. So the list comes
from `manifest.json`, which `make gen` writes from the declarations, and a group's own modules are
imported when one of its tools is called. What else a client asks for at every start stands there
too, for the hub and its relays.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pilothouse.core.declare.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pilothouse.core.declare.prompt import Prompt
    from pilothouse.core.declare.resource import Resource
    from pilothouse.core.declare.tool import Tool
    from pilothouse.server.session import Provider

    type AnyGroupSpec = GroupSpec | LazyGroupSpec

MANIFEST = Path(__file__).with_name("manifest.json")


@dataclass(frozen=True, kw_only=True)
class GroupSpec:
    """The declarations and providers of one group."""

    tools: Sequence[Tool]
    resources: Sequence[Resource] = ()
    prompts: Sequence[Prompt] = ()
    providers: Mapping[type, Provider] = field(default_factory=dict)
    """Port type → the provider that opens it for a session."""

    is_ready: ClassVar = True

    @cached_property
    def listings(self) -> Sequence[Listing]:
        return [tool.listing for tool in self.tools]


@dataclass(frozen=True)
class LazyGroupSpec:
    """The spec of a group, which is imported when more than its list is asked for."""

    group: str
    load: Callable[[], GroupSpec]

    @cached_property
    def ready(self) -> GroupSpec:
        return self.load()

    @property
    def is_ready(self) -> bool:
        """Tell whether it was imported."""
        return "ready" in vars(self)

    @property
    def listings(self) -> Sequence[Listing]:
        return _listed().get(self.group) or self.ready.listings

    @property
    def tools(self) -> Sequence[Tool]:
        return self.ready.tools

    @property
    def resources(self) -> Sequence[Resource]:
        return self.ready.resources

    @property
    def prompts(self) -> Sequence[Prompt]:
        return self.ready.prompts

    @property
    def providers(self) -> Mapping[type, Provider]:
        return self.ready.providers


@cache
def manifest() -> dict[str, Any]:
    """Return all that is generated; nothing if it cannot be read, as it only saves time."""
    try:
        whole = json.loads(MANIFEST.read_bytes())
    except (OSError, ValueError):
        return {}
    return whole if isinstance(whole, dict) else {}


@cache
def _listed() -> dict[str, list[Listing]]:
    try:
        groups: dict[str, list[dict[str, Any]]] = manifest()["tools"]
        return {name: [Listing(**entry) for entry in group] for name, group in groups.items()}
    except (TypeError, AttributeError, KeyError):
        return {}


def summaries(specs: Sequence[AnyGroupSpec]) -> dict[str, str]:
    """Return what each group is for, as far as that is known without importing it."""
    known: dict[str, str] = dict(manifest().get("groups", {}))
    imported = (tool.group for spec in specs if spec.is_ready for tool in spec.tools)
    return known | {group.name: group.summary for group in imported}
