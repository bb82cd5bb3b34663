"""Arrow Flight SQL: the same answers for drivers of databases."""
