"""Benchmarks: figures for information, without pass or fail."""
