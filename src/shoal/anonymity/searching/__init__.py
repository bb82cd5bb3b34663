"""The search for a recoding: levels for all rows with a proof of the best, or cuts of the table."""
