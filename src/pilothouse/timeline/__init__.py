"""One picture of what happened: moments of all groups on one clock, joined, and watched."""
