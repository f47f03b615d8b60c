"""The REST API of the intercept group."""
