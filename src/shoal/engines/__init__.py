"""Engines: how a plan is run, and where data comes from."""
