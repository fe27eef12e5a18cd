"""``epdctl rollout``: rollouts of an EPDDeployment and the records of its earlier specs."""
