"""Changes of bookmarks: drafted, previewed, applied as a whole, journalled, undone."""
