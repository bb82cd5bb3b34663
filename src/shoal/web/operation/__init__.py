"""What operators care about: a proxy in front of the service, certificates that change, a log of the process."""
