"""KHyperLogLog sketches and what they measure."""
