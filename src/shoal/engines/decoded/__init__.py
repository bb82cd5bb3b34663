"""Files that are decoded once, when a session opens: what cannot be read is told then, and never later."""
