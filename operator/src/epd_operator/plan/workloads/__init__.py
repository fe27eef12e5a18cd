"""Workloads: the objects that create the pods of a stage. Today these are Deployments."""
