"""The observation of stages for scaling decisions, from live objects and measured loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.rollout import Rollout
from epd_operator.autoscaler.nodes import node_supply
from epd_operator.objects.identity import StageKey, all_stages
from epd_operator.objects.pods import has_ended, is_overdue, is_ready, is_terminating, parse_time, unscheduled_of
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.replicas import gpus_of, is_reduced, settings_of
from epd_operator.plan.rollout.limits import blocked_pod
from epd_operator.plan.workloads.progress import Refusal, progress_of
from epd_operator.scaling.model import PodLoad, PodRefusal, StageObservation


def stage_observations(
    spec: EPDDeploymentSpec,
    *,
    revision: str,
    observation: Observation,
    loads: Mapping[str, PodLoad],
    at: float,
    now: datetime,
    metrics_error: str | None = None,
) -> list[StageObservation]:
    """The observations of all stages of a revision that have a Deployment.

    None while a rollout has taken pods from one of them: what is measured then says nothing about the full stage.

    Args:
        spec: the spec of the revision.
        revision: the revision that serves.
        observation: live objects, from the last reconcile.
        loads: measured loads by pod, without pods that have not been measured yet.
        at: the current time, on the clock of the measurements.
        now: the current time as a date, to compare with times in the objects.
        metrics_error: why no metrics can be read; None if they can be read.
    """
    found: list[StageObservation] = []
    if any(is_reduced(observation.deployment_of(stage)) for stage in all_stages(revision)):
        return found
    for stage in all_stages(revision):
        settings = settings_of(spec, stage.name)
        live = observation.deployment_of(stage)
        if settings is not None and live is not None:
            pods = observation.pods_of(stage)
            seen = _observe(stage, live=live, pods=pods, rollout=settings.rollout, loads=loads, at=at, now=now)
            nodes = node_supply((observation.events_of(pod) for pod in pods if _has_no_node(pod)), now=now)
            found.append(replace(seen, nodes=nodes, gpus_per_replica=gpus_of(settings), metrics_error=metrics_error))
    return found


def _observe(
    stage: StageKey,
    *,
    live: KubernetesObject,
    pods: list[KubernetesObject],
    rollout: Rollout,
    loads: Mapping[str, PodLoad],
    at: float,
    now: datetime,
) -> StageObservation:
    # Pods that have ended (evicted, refused by the node) are neither supply nor pending: others take their place.
    running = [pod for pod in pods if not has_ended(pod)]
    remaining = [pod for pod in running if not is_terminating(pod)]
    terminating = [pod for pod in running if is_terminating(pod) and not is_overdue(pod, now=now)]
    progress = progress_of(live)
    waits = [seconds for pod in remaining if (seconds := _unscheduled_seconds(pod, now=now)) is not None]
    is_blocked = blocked_pod(pods, rollout=rollout, replicas=progress.desired) is not None
    if is_blocked:
        # These pods wait for what the old pods have, which scaling down frees: they are not about to start.
        remaining = [pod for pod in remaining if unscheduled_of(pod) is None]
    return StageObservation(
        stage=stage,
        at=at,
        replicas=progress.desired,
        pods=tuple(_with_readiness(pod, loads) for pod in remaining),
        unschedulable_seconds=max(waits, default=None),
        refusal=_refusal(progress.refusal, now=now),
        rolling_out=progress.is_rolling_out and not is_blocked,
        terminating=len(terminating),
    )


def _refusal(refusal: Refusal | None, *, now: datetime) -> PodRefusal | None:
    """The refusal of pods. If only a new ReplicaSet is refused, the existing ones still create pods."""
    if refusal is None or not refusal.of_pods:
        return None
    seconds = _seconds_since(refusal.since, now=now)
    return PodRefusal(message=refusal.message, seconds=seconds, by_quota=refusal.by_quota)


def _seconds_since(text: Any, *, now: datetime) -> float:
    """Seconds since a time of the Kubernetes API; 0 if it is not one, or in the future."""
    since = parse_time(text)
    return max(0.0, (now - since).total_seconds()) if since else 0.0


def _has_no_node(pod: KubernetesObject) -> bool:
    return not (pod.get("spec") or {}).get("nodeName")


def _with_readiness(pod: KubernetesObject, loads: Mapping[str, PodLoad]) -> PodLoad:
    """The load of a pod, with its readiness and node from the live object, which is newer than the measurement."""
    name = str(pod["metadata"]["name"])
    load = loads.get(name) or PodLoad(name=name, ready=False)
    return replace(load, ready=is_ready(pod), scheduled=not _has_no_node(pod))


def _unscheduled_seconds(pod: KubernetesObject, *, now: datetime) -> float | None:
    """For how many seconds the scheduler has found no node for the pod; None if it has one."""
    condition = unscheduled_of(pod)
    if condition is None:
        return None
    return _seconds_since(condition.get("lastTransitionTime") or pod["metadata"].get("creationTimestamp"), now=now)
