"""HTTP over the service: no logic of its own."""
