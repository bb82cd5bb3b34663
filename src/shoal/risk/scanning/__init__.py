"""One pass over tables: sources to sketches."""
