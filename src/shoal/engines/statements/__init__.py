"""Plan nodes to the SQL that DuckDB runs."""
