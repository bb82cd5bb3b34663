"""Looking things up without the documentation folder: codes of errors, functions that queries may call."""
