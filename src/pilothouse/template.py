"""What our own server answers before anything is called, as the settings have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.core.listing import is_served
from pilothouse.gateway.front import builtin_template
from pilothouse.server.parts import manifest

if TYPE_CHECKING:
    from pilothouse.core.listing import Listing, Profile
    from pilothouse.core.settings import Settings
    from pilothouse.gateway.front import Template


def own_template(settings: Settings) -> Template:
    """For the hub and its relays, from what is generated."""
    profile: Profile = "full" if settings.profile == "full" else "default"

    def served(listing: Listing) -> bool:
        return is_served(listing.group, listing.profile, settings.tools, profile)

    return builtin_template(manifest(), served, with_output_schemas=settings.output_schema)
