"""Runner processes: each query of a service runs in one, so whatever happens to it affects nobody else."""
