"""Two stores with one interface."""
