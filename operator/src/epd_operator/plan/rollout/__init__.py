"""Roll-outs: in which order stages start, and which pods are deleted first."""
