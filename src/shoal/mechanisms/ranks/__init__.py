"""Ranks of rows: several quantiles by recursion, and where a quantile lies."""
