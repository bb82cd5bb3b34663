"""Limits that a query finds for itself, as data."""
