"""One file per rule that decides which groups may appear; `mechanisms.group_selection` has the table of rules."""
