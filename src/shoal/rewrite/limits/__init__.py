"""Limits that a query finds for itself: which are open, what is known about them for free, and the two steps of the plan."""
