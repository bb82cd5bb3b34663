"""Refusals of queries that would be paid for and answer nothing."""
