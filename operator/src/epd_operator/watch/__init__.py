"""Watches of Kubernetes objects, with kopf."""
