"""Risk: how identifying is data that already exists."""
