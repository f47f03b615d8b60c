"""What our own server answers before anything is called, as the settings have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.core.declare.listing import Selection
from pilothouse.hub.mcp.template import builtin_template
from pilothouse.server.groups import manifest

if TYPE_CHECKING:
    from pilothouse.core.settings import Settings
    from pilothouse.hub.mcp.template import Template


def own_template(settings: Settings, *, paired: bool) -> Template:
    """Make the template for the hub and its relays, from what is generated."""
    selection = Selection.of(settings, paired=paired)
    return builtin_template(
        manifest(),
        selection.serves,
        groups=(*selection.groups, "house"),
        with_output_schemas=settings.output_schema,
    )
