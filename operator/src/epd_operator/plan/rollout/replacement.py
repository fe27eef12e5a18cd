"""Which worker is evicted because it answers wrongly: one at a time, and only if other workers answer right.

Nothing is remembered: the ages of the pods limit how often a pod of a stage is evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from epd_operator.api.untyped import mapping
from epd_operator.objects.pods import is_live, is_ready, name_of, parse_time
from epd_operator.plan.observation import Findings, KubernetesObject, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.steps import Phase


def evictions(rollout: Rollout, *, observation: Observation) -> tuple[dict[str, Any], ...]:
    """The eviction of a worker that answers wrongly; empty if none should be evicted now.

    It has the uid of the pod as a precondition, and Kubernetes refuses it if the disruption budget does not allow it.
    """
    findings, now, serving = observation.findings, observation.at, rollout.serving
    verification = serving.spec.verification if serving.spec is not None else None
    if verification is None or not verification.replace_wrong_workers or findings is None or now is None:
        return ()
    is_settled = rollout.phase is Phase.NONE and rollout.target.name == serving.name and not rollout.others
    if not is_settled or findings.revision != serving.name or _is_paused(rollout):
        return ()
    interval = timedelta(seconds=verification.interval_seconds)
    for stage in serving.stages:
        pods = observation.pods_of(stage.key)
        pod = _replaceable(pods, wanted=stage.replicas, findings=findings)
        if pod is not None and all(_is_older(each, than=interval, now=now) for each in pods):
            return (_eviction(pod),)
    return ()


def _is_paused(rollout: Rollout) -> bool:
    return rollout.target.spec is not None and rollout.target.spec.rollout.paused


def _replaceable(pods: Sequence[KubernetesObject], *, wanted: int, findings: Findings) -> KubernetesObject | None:
    """A pod of a complete stage that answers wrongly while another one answers right."""
    ready = [pod for pod in pods if is_live(pod) and is_ready(pod)]
    if len(ready) < max(wanted, len(pods)) or not any(name_of(pod) in findings.right for pod in ready):
        return None
    return next((pod for pod in ready if name_of(pod) in findings.wrong), None)


def _is_older(pod: KubernetesObject, *, than: timedelta, now: datetime) -> bool:
    created = parse_time(mapping(pod.get("metadata")).get("creationTimestamp"))
    return created is not None and now - created >= than


def _eviction(pod: KubernetesObject) -> dict[str, Any]:
    metadata = pod["metadata"]
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {key: metadata[key] for key in ("name", "namespace")},
        "deleteOptions": {"preconditions": {"uid": metadata["uid"]}},
    }
