"""Verbs that calculate and read no data: compose, convert, group, subsample, meaning, definitions."""
