"""Where a ledger is kept: rows chained by hashes, in a file, in memory or in PostgreSQL."""
