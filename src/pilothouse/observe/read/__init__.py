"""Reads of what was recorded: filters, budgets and source maps."""
