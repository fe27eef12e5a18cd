"""A small model of how Kubernetes handles children: enough to run the planner until it settles, without a cluster."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from epd_operator.objects.identity import Identity, StageKey
from epd_operator.plan.observation import ChildKey, Comparison, Observation, Verdict
from epd_operator.plan.planner import Plan
from epd_operator.plan.rollout.steps import Phase
from epd_operator.scaling.model import Decision, ScalingReason

NOW = "2026-01-01T00:00:00Z"


class World:
    """Children of one deployment. Every ``step`` makes one more pod of every Deployment ready.

    With ``answers``, each new revision answers the requests of the operator.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.children: dict[ChildKey, dict[str, Any]] = {}
        self.status: dict[str, Any] = {}
        self.generation = 1
        self.verdict: Verdict | None = None
        self.answers = True
        self.comparison: Comparison | None = None
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self.decisions: dict[StageKey, Decision] = {}

    def observation(self) -> Observation:
        return Observation(
            identity=self.identity,
            generation=self.generation,
            status=copy.deepcopy(self.status),
            children=copy.deepcopy(self.children),
            verdict=self.verdict,
            comparison=self.comparison,
            at=self.at,
            decisions=dict(self.decisions),
        )

    def scale_as_seen(self) -> None:
        """Decide that every Deployment keeps the pods that it has now, as autoscaling does within its targets."""
        for key, child in self.children.items():
            stage = self.identity.stage_of_workload(key.name) if key.kind == "Deployment" else None
            if stage is not None:
                pods, reason = child["spec"]["replicas"], ScalingReason.WITHIN_TARGET
                self.decisions[stage] = Decision(stage=stage, current=pods, desired=pods, reason=reason, message="")

    def apply(self, plan: Plan) -> None:
        for child in plan.apply:
            key = ChildKey.of(child)
            live = self.children.get(key, {"metadata": {"generation": 0}})
            stored = copy.deepcopy(child)
            stored["metadata"]["generation"] = live["metadata"]["generation"] + 1
            stored["metadata"]["uid"] = f"uid-{key.kind}-{key.name}"
            stored["status"] = {**live.get("status", {}), "updatedReplicas": 0}
            self.children[key] = stored
        for key in plan.delete:
            del self.children[key]
        # Like the real one, the verifier keeps no verdict of a revision that is not asked any more.
        is_asked, name = plan.rollout.phase is Phase.VERIFYING, plan.rollout.target.name
        self.verdict = Verdict(revision=name, passed=self.answers, message="asked for a word") if is_asked else None

    def step(self) -> None:
        self.at += timedelta(seconds=10)
        for key, child in self.children.items():
            if key.kind != "Deployment":
                continue
            wanted = child["spec"]["replicas"]
            ready = min(wanted, child["status"].get("readyReplicas", 0) + 1)
            child["status"] = {
                "observedGeneration": child["metadata"]["generation"],
                "replicas": ready,
                "readyReplicas": ready,
                "updatedReplicas": ready,
            }
