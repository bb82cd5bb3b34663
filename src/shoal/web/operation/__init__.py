"""What whoever runs a service cares about: a proxy in front of it, certificates that change, a log of the process."""
