"""All tools and resources of the timeline group."""

from __future__ import annotations

from pilothouse.timeline.tools.view import causes, timeline
from pilothouse.timeline.tools.watch import session_watches, watch, watches

TOOLS = (timeline, causes, watch)
RESOURCES = (watches, session_watches)
