"""shoal: strong anonymization an ordinary data team can use."""
