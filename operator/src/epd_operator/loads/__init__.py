"""Loads and latencies of pods, read from their metrics pages or from a Prometheus server."""
