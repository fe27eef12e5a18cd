"""Requests of the operator through the frontends of a new revision, before it gets the requests of users."""
