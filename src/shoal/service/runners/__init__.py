"""Runner processes: each query of a service runs in one, and what happens to it there happens to nobody else."""
