"""Rollouts: the start order of stages, and the deletion cost of pods."""
