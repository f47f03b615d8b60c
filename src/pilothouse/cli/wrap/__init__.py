"""`pilothouse wrap`: a command behind the JSON contract, and its supervisor."""
