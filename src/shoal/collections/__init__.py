"""Private collections: owned records that Python transforms and cannot look into."""
