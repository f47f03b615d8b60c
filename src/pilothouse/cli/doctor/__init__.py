"""`pilothouse doctor`: what is found out about a machine, and what is said of it."""
