"""The relay: standard input and output of a client, joined to a worker of the hub."""
