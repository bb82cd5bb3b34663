"""The rules of spending: what may be written into a ledger, and in which order those who wait are served."""
