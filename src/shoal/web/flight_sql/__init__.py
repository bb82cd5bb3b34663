"""Arrow Flight SQL: the same answers for database drivers."""
