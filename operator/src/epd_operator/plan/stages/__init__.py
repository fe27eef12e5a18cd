"""The stages of each topology: their pods, replicas and pools."""
