"""A session as files: a pytest test and Playwright's traces."""
