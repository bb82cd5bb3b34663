"""What keeps a service going when a process, a database or a source does not."""
