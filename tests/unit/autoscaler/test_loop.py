"""The scaler between reconciler and pods, with made-up measurements."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.autoscaling import MetricsSource
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.autoscaler.loop import Autoscaler
from epd_operator.loads.latency import LatencyTotals, StageTotals, Totals
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.sources import NO_PROMETHEUS
from epd_operator.loads.targets import Target
from epd_operator.objects.identity import COMPONENT_LABEL, INITIAL_REVISION, Identity, Key, StageKey
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.replicas import DRAINED_FROM
from epd_operator.scaling.model import Decision, PodLoad, ScalingReason
from epd_operator.telemetry.logs import JsonFormatter
from epd_operator.telemetry.scaling_metrics import ScalingMetrics
from support.specs import spec

KEY = Key("serving", "qwen")
IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
SCALED = {"maxReplicas": 8, "metrics": [{"type": "Requests", "targetPerReplica": 4}]}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Pods:
    """Stands for the pods' metrics pages."""

    def __init__(self) -> None:
        self.requests: dict[str, float] = {}
        self.at = 0.0
        self.latencies: dict[str, LatencyTotals] = {}
        self.stages: dict[str, StageTotals] = {}
        self.asked: list[str] = []
        self.asked_at: tuple[MetricsSource, str] | None = None
        self.obstacles: dict[MetricsSource, str] = {}
        self.before_answer = lambda: None

    def obstacle(self, source: MetricsSource) -> str | None:
        return self.obstacles.get(source)

    async def read(self, source: MetricsSource, targets: Sequence[Target], *, namespace: str) -> Measurements:
        self.asked = [target.pod for target in targets]
        self.asked_at = (source, namespace)
        self.before_answer()
        loads = {
            target.pod: PodLoad(
                name=target.pod, ready=True, requests=self.requests.get(target.pod), measured_at=self.at
            )
            for target in targets
        }
        return Measurements(loads=loads, latencies=dict(self.latencies), stages=dict(self.stages))


class World:
    def __init__(self) -> None:
        self.clock = 0.0
        self.pods = Pods()
        self.enqueued: list[Key] = []
        self.told: list[Decision] = []
        self.registry = CollectorRegistry()
        self.scaler = Autoscaler(
            sources=self.pods,  # type: ignore[arg-type]
            enqueue=self.enqueued.append,
            record_event=self._record_event,
            metrics=ScalingMetrics(self.registry),
            clock=lambda: self.clock,
            now=lambda: NOW,
        )

    def _record_event(self, _identity: Identity, decision: Decision) -> None:
        self.told.append(decision)

    def desired(self) -> int | None:
        decision = self.scaler.decisions(KEY, identity=IDENTITY).get(StageKey(StageName.ENCODER))
        return decision.desired if decision else None

    def series(self) -> dict[str, float]:
        return {
            sample.name: sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.labels.get("deployment") == "qwen"
        }


def scaled(**changes: Any) -> EPDDeploymentSpec:
    return spec(encoder={"pool": "rtx", "replicas": 1, "autoscaling": SCALED}, **changes)


def observed(*pods: str, replicas: int = 1) -> Observation:
    deployment = {
        "metadata": {"generation": 1},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas},
    }
    live = tuple(
        {
            "metadata": {"name": name, "labels": {COMPONENT_LABEL: "encoder"}},
            "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for name in pods
    )
    return Observation(
        identity=IDENTITY, generation=1, children={ChildKey("Deployment", "qwen-encoder"): deployment}, pods=live
    )


async def test_load_above_the_target_wakes_the_reconciler_with_a_decision_and_is_told_once() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.desired() == 3
    assert world.enqueued == [KEY]
    assert [d.desired for d in world.told] == [3]
    await world.scaler.round(KEY)
    assert len(world.told) == 1


async def test_the_gpus_of_another_revision_count_in_the_budget() -> None:
    world, limited = World(), scaled(scaling={"gpuBudget": 7})
    world.scaler.update(KEY, spec=limited, revision=INITIAL_REVISION, observation=observed("a"), gpus_beside=5)
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.desired() == 2
    world.scaler.update(KEY, spec=limited, revision=INITIAL_REVISION, observation=observed("a"))
    await world.scaler.round(KEY)
    assert world.desired() == 3


async def test_a_stage_from_which_a_rollout_has_taken_pods_is_not_scaled_by_what_the_rest_does() -> None:
    world, seen = World(), observed("a")
    (child,) = seen.children.values()
    shrunk = {**child, "metadata": {**child["metadata"], "annotations": {DRAINED_FROM: "4"}}}
    found = replace(seen, children=dict.fromkeys(seen.children, shrunk))
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=found)
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.desired() is None
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=seen)
    await world.scaler.round(KEY)
    assert world.desired() == 3


async def test_a_steady_load_wakes_nobody_again() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 4.0}
    for _ in range(5):
        await world.scaler.round(KEY)
        world.clock += 15
    assert world.enqueued == [KEY]
    assert world.told == []


async def test_pods_that_do_not_answer_hold_the_number_and_show_no_number_as_zero() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a", "b", replicas=2))
    await world.scaler.round(KEY)
    assert world.desired() == 2
    assert (
        world.scaler.decisions(KEY, identity=IDENTITY)[StageKey(StageName.ENCODER)].reason
        is ScalingReason.METRICS_MISSING
    )
    value = world.series()["epd_operator_scaling_signal_value"]
    assert value != value  # NaN


@pytest.mark.parametrize("source", MetricsSource)
async def test_metrics_are_read_from_the_source_that_the_object_asks_for(source) -> None:
    world = World()
    world.scaler.update(
        KEY, spec=scaled(scaling={"metricsSource": source}), revision=INITIAL_REVISION, observation=observed("a")
    )
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.pods.asked_at == (source, "serving")
    assert world.desired() == 3


async def test_a_source_that_cannot_be_read_holds_the_number_at_once_and_says_the_way_out() -> None:
    world = World()
    world.pods.obstacles = {MetricsSource.PROMETHEUS: NO_PROMETHEUS}
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    world.scaler.update(
        KEY,
        spec=scaled(scaling={"metricsSource": "Prometheus"}),
        revision=INITIAL_REVISION,
        observation=observed("a", replicas=3),
    )
    world.pods.requests = {}
    await world.scaler.round(KEY)
    decision = world.scaler.decisions(KEY, identity=IDENTITY)[StageKey(StageName.ENCODER)]
    assert (decision.desired, decision.reason) == (3, ScalingReason.METRICS_MISSING)
    assert "--prometheus-url" in decision.message
    assert "chart value prometheusUrl" in decision.message


async def test_an_object_without_a_scaled_stage_is_not_measured() -> None:
    world = World()
    world.scaler.update(KEY, spec=spec(), revision=INITIAL_REVISION, observation=observed("a"))
    await world.scaler.round(KEY)
    assert world.pods.asked == []
    assert world.scaler.decisions(KEY, identity=IDENTITY) == {}


async def test_a_stage_that_is_scaled_no_more_loses_its_decision_and_its_series() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.series()
    other = spec(pd={"pool": "gb200", "autoscaling": SCALED})
    world.scaler.update(KEY, spec=other, revision=INITIAL_REVISION, observation=observed("a"))
    assert world.desired() is None
    assert world.series() == {}


async def test_a_fault_at_one_object_is_logged_with_its_name_and_its_series_end_with_the_scaler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.series()
    world.clock += 60
    world.pods.before_answer = lambda: 1 // 0
    caplog.handler.setFormatter(JsonFormatter())
    task = asyncio.ensure_future(world.scaler.run())
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    (line,) = (json.loads(line) for line in caplog.text.splitlines())
    assert (line["message"], line["namespace"], line["deployment"]) == (
        "unexpected error in scaling; retrying at the next decision",
        "serving",
        "qwen",
    )
    assert world.series() == {}


async def test_a_namesake_gets_no_decision_of_the_object_before_it() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.scaler.decisions(KEY, identity=replace(IDENTITY, uid="u-2")) == {}


async def test_an_object_that_goes_during_a_round_leaves_nothing() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 12.0}
    await world.scaler.round(KEY)
    assert world.series()
    world.pods.before_answer = lambda: world.scaler.forget(KEY)
    await world.scaler.round(KEY)
    assert world.desired() is None
    assert world.series() == {}


async def test_a_round_uses_what_the_last_pass_saw_even_if_it_came_meanwhile() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a"))
    world.pods.requests = {"a": 4.0}
    world.pods.before_answer = lambda: world.scaler.update(
        KEY, spec=scaled(), revision=INITIAL_REVISION, observation=observed("a", replicas=2)
    )
    await world.scaler.round(KEY)
    assert world.scaler.decisions(KEY, identity=IDENTITY)[StageKey(StageName.ENCODER)].current == 2


def blocked_rollout() -> Observation:
    """Two ready pods of an old template, and a new one that finds no node because these have all GPUs."""
    base = observed("a", "b", replicas=2)
    deployment = base.children[ChildKey("Deployment", "qwen-encoder")]
    status = {**deployment["status"], "replicas": 3, "updatedReplicas": 1}
    message = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    unscheduled = {"type": "PodScheduled", "status": "False", "message": message}
    labels = {COMPONENT_LABEL: "encoder", "pod-template-hash": "new"}
    new = {"metadata": {"name": "c", "labels": labels}, "status": {"conditions": [unscheduled]}}
    return replace(
        base,
        children={ChildKey("Deployment", "qwen-encoder"): {**deployment, "status": status}},
        pods=(*base.pods, new),
    )


async def test_a_stage_is_scaled_down_while_its_rollout_waits_for_the_gpus_of_its_old_pods() -> None:
    world = World()
    world.scaler.update(KEY, spec=scaled(), revision=INITIAL_REVISION, observation=blocked_rollout())
    world.pods.requests = {"a": 1.0, "b": 2.0}
    decided = []
    for _ in range(22):
        await world.scaler.round(KEY)
        decided.append(world.desired())
        world.clock = world.pods.at = world.clock + 15
    assert decided == [2] * 20 + [1] * 2
    assert world.told[-1].reason is ScalingReason.LOAD_BELOW_TARGET


def live_stages(*stages: StageKey) -> Observation:
    """One ready pod of each stage, named after it."""
    base = observed()
    deployment = base.children[ChildKey("Deployment", "qwen-encoder")]
    pods = tuple(
        {
            "metadata": {"name": stage.name.value, "labels": {COMPONENT_LABEL: stage.name.value}},
            "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for stage in stages
    )
    children = {ChildKey("Deployment", f"qwen-{stage}"): deployment for stage in stages}
    return replace(base, children=children, pods=pods)


@pytest.mark.parametrize(
    ("encode", "queue", "grown"),
    [(0.9, 0.2, StageKey(StageName.ENCODER)), (0.2, 0.9, StageKey(StageName.PD)), (None, None, StageKey(StageName.PD))],
)
async def test_a_slow_first_token_grows_the_stage_whose_pods_report_most_of_the_time(encode, queue, grown) -> None:
    """Ten requests in the interval, all with images; the load of both stages is on target."""

    def totals(seconds: float | None, count: float) -> Totals | None:
        return None if seconds is None else Totals(seconds=seconds * count, count=count)

    world = World()
    both = spec(
        encoder={"pool": "rtx", "autoscaling": SCALED},
        pd={"pool": "gb200", "autoscaling": SCALED},
        slo={"timeToFirstTokenMilliseconds": 1000},
    )
    world.scaler.update(
        KEY,
        spec=both,
        revision=INITIAL_REVISION,
        observation=live_stages(StageKey(StageName.FRONTEND), StageKey(StageName.ENCODER), StageKey(StageName.PD)),
    )
    world.pods.requests = {"frontend": 8.0, "encoder": 4.0, "pd": 4.0}
    for count in (100.0, 110.0):
        world.pods.latencies = {"frontend": LatencyTotals(measured_at=0.0, first_token=totals(1.2, count))}
        world.pods.stages = {
            "encoder": StageTotals(encode=totals(encode, count)),
            "pd": StageTotals(queue=totals(queue, count), prefill=totals(queue and 0.05, count)),
        }
        await world.scaler.round(KEY)
        world.clock += 15
    decisions = world.scaler.decisions(KEY, identity=IDENTITY)
    desired = {stage: decision.desired for stage, decision in decisions.items()}
    assert desired == {StageKey(StageName.ENCODER): 1, StageKey(StageName.PD): 1} | {grown: 2}
    assert decisions[grown].reason is ScalingReason.SLO_VIOLATED
    assert "1200 ms, allowed 1000 ms" in decisions[grown].message
