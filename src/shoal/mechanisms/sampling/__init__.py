"""Exact draws of discrete noise."""
