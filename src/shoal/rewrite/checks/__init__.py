"""Refuses queries that would spend budget and answer nothing."""
