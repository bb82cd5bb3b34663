"""The command line: shells without logic, one verb a file."""
