"""The app under test: how it is found, started, watched and ended."""
