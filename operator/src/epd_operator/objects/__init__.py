"""Kubernetes objects without I/O: their kinds, names and labels, and careful reading of what others wrote into them."""
