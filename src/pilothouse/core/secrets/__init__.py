"""Secrets: recognised by name, form or value, and masked."""
