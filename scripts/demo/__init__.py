"""`make demo`: an agent finds a planted fault in the shop of examples/shop."""
