"""The demo: from nothing to an answered image. Its parts also carry the end-to-end tests."""
