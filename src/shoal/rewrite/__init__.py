"""The passes: one verb per file, run in an explicit order."""
