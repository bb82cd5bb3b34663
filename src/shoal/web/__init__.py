"""HTTP over the service, without any logic."""
