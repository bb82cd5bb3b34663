"""What other databases write, in the words of this one."""
