"""The user's own Chrome bookmarks, through an extension."""
