"""The passes: one verb, one file, in a visible order."""
