"""The tester turned on our own queries and samplers."""
