"""All tools and resources of the timeline group."""

from __future__ import annotations

from pilothouse.timeline.view_tools import causes, timeline
from pilothouse.timeline.watch_tools import session_watches, watch, watches

TOOLS = (timeline, causes, watch)
RESOURCES = (watches, session_watches)
