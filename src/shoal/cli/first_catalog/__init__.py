"""What `shoal init` finds out about the data, for the custodian alone."""
