"""Files that are decoded once, when a session opens: what cannot be read is reported then, and never later."""
