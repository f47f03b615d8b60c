"""All tools, resources and prompts that one server serves, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilothouse.core.declare.listing import is_served

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pilothouse.core.declare.listing import Selection
    from pilothouse.core.declare.prompt import Prompt
    from pilothouse.core.declare.resource import Resource
    from pilothouse.core.declare.tool import Tool


class DuplicateName(ValueError):
    """Two declarations claim one name; nothing is served."""


@dataclass(frozen=True)
class Registry:
    """Tools and prompts by name, in the order in which they are listed, and resources."""

    tools: dict[str, Tool]
    resources: tuple[Resource, ...]
    prompts: dict[str, Prompt]

    @classmethod
    def of(
        cls,
        tools: Iterable[Tool],
        resources: Iterable[Resource] = (),
        prompts: Iterable[Prompt] = (),
    ) -> Registry:
        """Index all by name. Raises DuplicateName: the second of two tools would silently win."""
        by_name: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in by_name:
                raise DuplicateName(
                    f"tool {tool.name} is declared by {by_name[tool.name].group.name}"
                    f" and by {tool.group.name}"
                )
            by_name[tool.name] = tool
        listed: dict[str, Resource] = {}
        for resource in resources:
            if resource.uri in listed:
                raise DuplicateName(f"resource {resource.uri} is declared twice")
            listed[resource.uri] = resource
        offered: dict[str, Prompt] = {}
        for prompt in prompts:
            if prompt.name in offered:
                raise DuplicateName(f"prompt {prompt.name} is declared twice")
            offered[prompt.name] = prompt
        return cls(by_name, tuple(listed.values()), offered)

    def served(self, selection: Selection) -> Registry:
        """Return the part that a user asked for, with the resources of all groups asked for."""
        groups, profile = selection.groups, selection.profile
        tools = {
            name: tool
            for name, tool in self.tools.items()
            if selection.includes(tool.group.name, tool.profile)
        }
        return Registry(
            tools,
            tuple(r for r in self.resources if is_served(r.group.name, "default", groups, profile)),
            {name: prompt for name, prompt in self.prompts.items() if prompt.is_offered(tools)},
        )

    def resource_for(self, uri: str) -> tuple[Resource, dict[str, str]] | None:
        """Return the resource that a URI names, with the values of its variables."""
        for resource in self.resources:
            values = resource.match(uri)
            if values is not None:
                return resource, values
        return None
