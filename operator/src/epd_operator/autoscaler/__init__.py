"""The autoscaling loop: reads the loads of pods, decides replicas by the rules in scaling/, wakes the reconciler."""
