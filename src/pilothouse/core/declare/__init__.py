"""Declarations: tools, resources, prompts, their models and their faults."""
