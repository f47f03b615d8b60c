"""The tools of the intercept group."""
