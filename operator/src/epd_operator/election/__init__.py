"""Leader election by a Lease: the rules, the elector that follows them, and what only the leader runs."""
