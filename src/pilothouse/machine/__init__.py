"""The operating system: processes, folders, files, and browsers that are installed."""
