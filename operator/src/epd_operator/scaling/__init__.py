"""Scaling decisions: pure functions from observed load to replicas. Times are passed in, in seconds."""
