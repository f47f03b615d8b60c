"""Recorded requests as HAR."""
