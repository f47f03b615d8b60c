"""Reading the history: connections, scans, cursors and text search."""
