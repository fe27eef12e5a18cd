"""Pure planning: spec and observed state in, children and status out. No I/O, no clock, no randomness."""
