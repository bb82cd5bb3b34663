"""Proofs of a δ by exact sums."""
