"""Python functions over private records, called in their own processes."""
