"""Status: why stages are not ready, the conditions, and the Events that report a changed status."""
