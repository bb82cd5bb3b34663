"""Asking on the command line: what queries may name, and a shell."""
