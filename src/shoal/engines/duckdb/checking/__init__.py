"""Statements checked before the charge: the engine's own reading of them, over an empty copy of the schema."""
