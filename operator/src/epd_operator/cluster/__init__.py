"""Access to Kubernetes: all reads, writes and their errors. Objects are plain mappings."""
