"""Reads the pods' own metrics: what each of them has to do right now."""
