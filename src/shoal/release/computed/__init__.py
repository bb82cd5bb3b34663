"""Intervals of expressions over private aggregates, by drawing from noise whose distribution is public."""
