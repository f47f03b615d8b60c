"""What an app writes: kept within bounds, read on, and understood."""
