"""Workers that speak another transport than their client."""
