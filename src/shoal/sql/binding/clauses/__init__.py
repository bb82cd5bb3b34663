"""The clauses that every SELECT shares: FROM, WHERE, ORDER BY, LIMIT."""
