"""One module per kind of child: pure functions from the spec to the object as it should be."""
