"""A distinct-count sketch that merges and is differentially private."""
