"""The proxy's configuration: its model, its rules and how it is kept."""
