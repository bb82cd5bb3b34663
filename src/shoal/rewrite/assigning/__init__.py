"""Ways to spend the budget of one SELECT, each complete: noise, selection, events."""
