"""Python functions over private records, called in processes of their own."""
