"""What workers ask of the hub, and how it answers."""
