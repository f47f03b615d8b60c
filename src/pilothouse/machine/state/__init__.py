"""What is kept on disk: where it lies, and how it is swept."""
