"""Sessions that start an app, drive it in a browser and tell the whole story when a step fails."""
