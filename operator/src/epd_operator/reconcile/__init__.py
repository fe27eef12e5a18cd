"""Reconciles: the queue of keys, the workers that take keys from it, the resync, and one reconcile of one object."""
