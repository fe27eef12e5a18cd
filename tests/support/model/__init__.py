"""A model of an API server with its controllers and nodes, in memory, for runs of many thousand steps."""
