"""What keeps the operator going: the queue of keys, the workers, metrics and health."""
