"""The demo: from nothing to an answered image. The end-to-end tests use its modules too."""
