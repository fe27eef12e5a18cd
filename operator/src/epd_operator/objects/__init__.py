"""Kubernetes objects without I/O: kinds, names and labels, and careful reading of fields that other clients wrote."""
