"""The tree of bookmarks: paths, URLs, duplicates, what is masked."""
