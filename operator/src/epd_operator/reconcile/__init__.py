"""Reconciling: the queue of keys, the workers that take keys from it, and one reconcile of one object."""
