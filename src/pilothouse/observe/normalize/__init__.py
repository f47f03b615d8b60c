"""DevTools events as normalised ones. Pure."""
