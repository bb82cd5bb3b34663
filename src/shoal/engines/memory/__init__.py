"""The same integers over Arrow columns in memory."""
