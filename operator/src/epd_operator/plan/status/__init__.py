"""Status: why stages are not ready, the conditions that follow from it, and what a changed status reports as Events."""
