"""Policies: which values must stay indistinguishable, and what that makes of sensitivity. No data, no SQL."""
