"""Children of an EPDDeployment: pure builders, one module per concern, and the registry of all kinds."""
