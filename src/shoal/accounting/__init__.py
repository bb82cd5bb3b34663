"""Accounting: what a release costs, and what is left."""
