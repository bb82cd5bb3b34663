"""What the holder of a sketch learns about a target."""
