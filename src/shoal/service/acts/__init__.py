"""What people may do with a service, by subject."""
