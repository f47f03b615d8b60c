"""The history file: its schema, its writer and its text index."""
