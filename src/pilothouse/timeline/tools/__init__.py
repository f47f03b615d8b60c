"""The tools of the timeline group."""
