"""Whether the pages that bookmarks name are still there."""
