"""Verbs of the budget service."""
