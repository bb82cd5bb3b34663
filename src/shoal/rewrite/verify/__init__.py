"""The second opinion on a finished plan: everything that privacy depends on, derived again without the passes."""
