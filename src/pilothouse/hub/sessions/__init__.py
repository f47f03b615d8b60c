"""The registry of sessions, in memory or in Redis, and who owns them."""
