"""Terminal, JSON and web page."""
