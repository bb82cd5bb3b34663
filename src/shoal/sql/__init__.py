"""The SQL front end: text in, bound relations out."""
