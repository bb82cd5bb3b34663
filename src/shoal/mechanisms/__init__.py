"""Mechanisms: mathematics without data and without SQL."""
