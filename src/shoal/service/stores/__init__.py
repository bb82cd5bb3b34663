"""Two stores with one face."""
