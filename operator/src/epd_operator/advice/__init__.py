"""Which topology pays: pure arithmetic on stage times."""
