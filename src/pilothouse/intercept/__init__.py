"""Traffic between a client and its servers: recorded, queried, modified and sent again."""
