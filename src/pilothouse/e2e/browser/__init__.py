"""The browser of a session, as Playwright drives it."""
