"""The second opinion on a finished plan: everything that privacy hangs on, derived again without the passes."""
