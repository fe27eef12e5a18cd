"""Requests in a constant stream while a deployment changes or parts of it are killed: which of them are lost."""
