"""Metrics, health, Kubernetes Events and logs of the operator."""
