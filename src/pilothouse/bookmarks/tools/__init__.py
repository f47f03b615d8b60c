"""The tools of the bookmarks group."""
