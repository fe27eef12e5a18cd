"""The one door to Kubernetes: reads, writes and their errors. Objects are plain mappings in and out."""
