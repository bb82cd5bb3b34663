"""Syntax tree and catalog to relational nodes."""
