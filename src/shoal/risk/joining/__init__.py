"""Which columns would join data sets."""
