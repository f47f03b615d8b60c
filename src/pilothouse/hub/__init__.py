"""The gateway: one isolated worker process for each agent."""
