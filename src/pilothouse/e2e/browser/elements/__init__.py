"""Elements of a page: selectors, frames, and whether a target can be reached."""
