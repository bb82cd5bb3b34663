"""Limits, baselines and verdicts for CI."""
