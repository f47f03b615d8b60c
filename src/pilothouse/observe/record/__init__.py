"""What is recorded of a target: its events, its bodies, its store on disk."""
