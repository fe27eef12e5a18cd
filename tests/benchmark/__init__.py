"""Benchmarks: figures for people, never a verdict."""
