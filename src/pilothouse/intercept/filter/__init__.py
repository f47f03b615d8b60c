"""The filter language: its grammar, its model and its SQL."""
