"""PostgreSQL: a reader of rows."""
