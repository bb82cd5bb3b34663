"""The kinds of secret graphs, and distances in them."""
