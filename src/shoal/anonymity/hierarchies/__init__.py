"""What values may be replaced by: hierarchies from files, from rules, or made from the data."""
