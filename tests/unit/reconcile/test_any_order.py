"""Edits, faults and accidents in any order, on a model of the cluster. `make rollout-model` makes more steps."""

from __future__ import annotations

from hypothesis import settings

from support.model.machine import RolloutMachine

TestRollouts = RolloutMachine.TestCase
TestRollouts.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
