"""The observed state of one EPDDeployment, as the planner reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from epd_operator.objects.identity import Identity, StageKey, stage_of
from epd_operator.objects.pod_events import PodEvent
from epd_operator.scaling.model import Decision

KubernetesObject = Mapping[str, Any]

UNSTABLE_CHANGES = 3
"""A policy that a person changes gives other values once. One that counts or writes the time does so at every write."""


@dataclass(frozen=True, order=True)
class ChildKey:
    """Kind and name of a child in the namespace of its owner."""

    kind: str
    name: str

    @classmethod
    def of(cls, child: KubernetesObject) -> ChildKey:
        """The key of an object."""
        return cls(kind=child["kind"], name=child["metadata"]["name"])


@dataclass(frozen=True, kw_only=True)
class ForeignOwner:
    """The controller of an object that has the name of a planned child, but belongs to another owner.

    Attributes:
        description: kind and name of the controller, or "none".
        terminating: the object is a child of an earlier EPDDeployment of the same name. The garbage collector removes
            it.
    """

    description: str
    terminating: bool = False


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """What admission policies and webhooks have made of a child: an accepted apply whose result differs from the plan.

    Attributes:
        uid: uid of the live child.
        plan: hash of the planned child.
        values: hash of the live values that differ.
        fields: paths of the fields that differ.
        changes: how often the same plan has got other values in these fields.
    """

    uid: str
    plan: str
    values: str
    fields: tuple[str, ...]
    changes: int = 0

    @property
    def is_unstable(self) -> bool:
        """Whether admission sets other values again and again, so any value in these fields is current."""
        return self.changes >= UNSTABLE_CHANGES


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of the last requests that the operator sent through the frontends of a revision.

    Attributes:
        revision: name of the revision.
        passed: whether they were answered.
        message: what was asked and what came back.
    """

    revision: str
    passed: bool
    message: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the workers of a revision last answered to requests with known answers.

    Attributes:
        revision: name of the revision.
        right: pods whose answers were all as expected.
        wrong: pods that answered a request otherwise each time, with the request and the answer.
        doubtful: a wrong answer for which no single worker can be blamed; empty if there is none.
    """

    revision: str
    right: tuple[str, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict)
    doubtful: str = ""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """Requests that the frontends of a revision have answered in a time.

    Attributes:
        requests: all.
        failed: those answered with an error of the server.
    """

    requests: int = 0
    failed: int = 0


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What two revisions that share the traffic have answered in the same time.

    Attributes:
        revision: name of the new revision.
        new: what its frontends have answered.
        old: what the frontends of the revision that serves have answered.
    """

    revision: str
    new: Answered
    old: Answered


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One EPDDeployment with everything that belongs to it, at one moment.

    Attributes:
        identity: name, namespace and uid.
        generation: generation of the spec.
        status: the status as the API server has it.
        children: objects whose controller is this EPDDeployment, by key.
        pods: pods of the EPDDeployment.
        pod_events: Events of pods whose status does not explain why they do not start, the oldest first.
        foreign_owners: children that cannot be applied, because an object of that name has another owner.
        refused: children that the API server refused, with its message.
        unreadable: kinds that cannot be listed, with the message of the API server.
        admitted: what admission has made of children, as far as this operator process has seen it.
        decisions: the last scaling decisions of stages that the operator scales.
        loads: requests of each pod of these stages, as last measured.
        verdict: the last answer through the frontends of a revision that has not served yet.
        findings: what the workers of the revision that serves last answered.
        comparison: what two revisions that share the traffic have answered; None if they do not, or if it is not known.
        at: the time of the observation; None if it is not known.
        crd_problem: why the CRDs are too old for this operator; empty if they are not, or if it is not known.
    """

    identity: Identity
    generation: int
    status: KubernetesObject = field(default_factory=dict)
    children: Mapping[ChildKey, KubernetesObject] = field(default_factory=dict)
    pods: tuple[KubernetesObject, ...] = ()
    pod_events: tuple[PodEvent, ...] = ()
    foreign_owners: Mapping[ChildKey, ForeignOwner] = field(default_factory=dict)
    refused: Mapping[ChildKey, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    admitted: Mapping[ChildKey, Admitted] = field(default_factory=dict)
    decisions: Mapping[StageKey, Decision] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    verdict: Verdict | None = None
    findings: Findings | None = None
    comparison: Comparison | None = None
    at: datetime | None = None
    crd_problem: str = ""

    def deployment_of(self, stage: StageKey) -> KubernetesObject | None:
        """The live Deployment of a stage; None if it does not exist."""
        return self.children.get(ChildKey("Deployment", self.identity.workload_name(stage)))

    def pods_of(self, stage: StageKey) -> list[KubernetesObject]:
        """The pods of one stage, ordered by name."""
        pods = (pod for pod in self.pods if stage_of(pod) == (stage.name, stage.revision))
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def events_of(self, pod: KubernetesObject) -> tuple[PodEvent, ...]:
        """The Events of one pod, the oldest first; empty if its status explains its state, or if it is new."""
        name = pod["metadata"]["name"]
        return tuple(event for event in self.pod_events if event.pod == name)
