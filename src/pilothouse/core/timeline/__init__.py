"""The timeline of a session: events, rings, lanes and the clock."""
