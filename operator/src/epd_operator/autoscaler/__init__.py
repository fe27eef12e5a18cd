"""The autoscaling loop: reads the loads of pods, and decides replicas by the rules in scaling/."""
