"""Pages for people: the service in a browser."""
