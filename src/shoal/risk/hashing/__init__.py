"""Values to keyed hashes, the same for every source."""
