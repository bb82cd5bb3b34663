"""What people read: the page, the text for a terminal, and what none of it protects from."""
