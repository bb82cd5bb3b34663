"""What limits and bounds leave out of an answer: read off noisy histograms, and counted in the far ends of intervals."""
