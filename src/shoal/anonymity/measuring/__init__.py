"""From a source to a measurement: rows, tuples, classes, and every definition computed on them."""
