"""The verbs of the side tools, one a file, no logic."""
