"""The progress that a live Deployment reports, and the Deployment that a pod belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.objects.identity import controller_of
from epd_operator.objects.text import one_line
from epd_operator.plan.observation import KubernetesObject

QUOTA_WORDS = "exceeded quota:"
"""In the answer of the API server when a ResourceQuota is used up: CheckRequest in apiserver/pkg/admission/plugin/
resourcequota/controller.go (https://github.com/kubernetes/apiserver). tests/api reads it from a real API server."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """The API server refuses to create pods: quota, Pod Security, admission.

    Attributes:
        message: its answer, with the name of the pod.
        since: the time at which the condition was set, as the Deployment has it.
        of_pods: whether it refuses the pods; otherwise it refuses the ReplicaSet of a new template.
    """

    message: str
    since: str
    of_pods: bool = True

    @property
    def by_quota(self) -> bool:
        """Whether a ResourceQuota allows no further pods."""
        return self.of_pods and QUOTA_WORDS in self.message


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a live Deployment. All numbers are 0 if there is none.

    Attributes:
        desired: replicas in its spec.
        pods: pods of all templates, without terminating ones.
        ready: pods that are ready, of all templates.
        updated: pods of the current template.
        is_observed: whether the Deployment controller has observed the latest spec.
        deadline_seconds: time after which the Deployment controller reports that nothing progresses.
        timed_out: its message if that time has passed; None if it has not.
        refusal: why pods are not created; None if they are.
    """

    desired: int = 0
    pods: int = 0
    ready: int = 0
    updated: int = 0
    is_observed: bool = False
    deadline_seconds: int = 0
    timed_out: str | None = None
    refusal: Refusal | None = None

    @property
    def is_rolling_out(self) -> bool:
        """Whether pods of an earlier template exist, or the latest spec has not been observed."""
        return self.pods > self.updated or not self.is_observed


def progress_of(live: KubernetesObject | None) -> Progress:
    """Read the status of a live Deployment."""
    if live is None:
        return Progress()
    status = live.get("status") or {}
    generation = int(live.get("metadata", {}).get("generation") or 1)
    return Progress(
        desired=int((live.get("spec") or {}).get("replicas") or 0),
        pods=int(status.get("replicas") or 0),
        ready=int(status.get("readyReplicas") or 0),
        updated=int(status.get("updatedReplicas") or 0),
        is_observed=int(status.get("observedGeneration") or 0) >= generation,
        deadline_seconds=int((live.get("spec") or {}).get("progressDeadlineSeconds") or 0),
        timed_out=_timeout(status),
        refusal=_refusal(status),
    )


def _refusal(status: Mapping[str, Any]) -> Refusal | None:
    """Why pods, or the ReplicaSet that would create them, are refused."""
    pods = _condition(status, kind="ReplicaFailure", value="True")
    found = pods or _condition(status, kind="Progressing", value="False", reason="ReplicaSetCreateError")
    if found is None:
        return None
    since = str(found.get("lastTransitionTime") or "")
    return Refusal(message=one_line(found.get("message")), since=since, of_pods=pods is not None)


def _timeout(status: Mapping[str, Any]) -> str | None:
    found = _condition(status, kind="Progressing", value="False", reason="ProgressDeadlineExceeded")
    return None if found is None else one_line(found.get("message"))


def _condition(
    status: Mapping[str, Any], *, kind: str, value: str, reason: str | None = None
) -> Mapping[str, Any] | None:
    """The condition, if it has this value, and this reason if one is given."""
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == (kind, value):
            return condition if reason in (None, condition.get("reason")) else None
    return None


def workload_of(pod: Mapping[str, Any]) -> str | None:
    """Name of the Deployment that the pod belongs to, or None.

    Labels are not enough, because every client that can create pods can set them. Kubernetes itself treats a pod as
    part of the ReplicaSet that controls it, and deletes the pod if that ReplicaSet does not exist.
    """
    controller = controller_of(pod)
    if controller is None or (controller["apiVersion"], controller["kind"]) != ("apps/v1", "ReplicaSet"):
        return None
    workload, separator, revision = str(controller["name"]).rpartition("-")
    template = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    return workload if separator and revision == template else None
