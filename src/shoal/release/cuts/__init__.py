"""What limits and bounds leave out of an answer: read from noisy histograms, and included in the far ends of intervals."""
