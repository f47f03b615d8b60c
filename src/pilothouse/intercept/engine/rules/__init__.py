"""Rules, mocks and breakpoints, applied to flows."""
