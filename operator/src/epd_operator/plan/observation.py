"""What the cluster layer saw, in the form in which the planner reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epd_operator.objects.identity import Identity, StageKey, stage_of
from epd_operator.scaling.model import Decision

KubernetesObject = Mapping[str, Any]


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
    """Who has the name that a child should get.

    Attributes:
        description: the owner, in words.
        leaving: it is a child of an earlier object of the same name and will be removed by itself.
    """

    description: str
    leaving: bool = False


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One EPDDeployment with everything that belongs to it, at one moment.

    Attributes:
        identity: name, namespace and incarnation.
        generation: generation of the spec.
        status: the status that the object carries now.
        children: objects controlled by this incarnation, by key.
        pods: pods with the deployment's label.
        taken: children that cannot be applied since an object of that name belongs to somebody else.
        refused: children that the API server refused, with its words.
        unreadable: kinds of which nobody knows what there is, with the words of the API server.
        decisions: the last scaling decisions of stages that the operator scales.
        loads: requests of each of their pods, as last measured.
    """

    identity: Identity
    generation: int
    status: KubernetesObject = field(default_factory=dict)
    children: Mapping[ChildKey, KubernetesObject] = field(default_factory=dict)
    pods: tuple[KubernetesObject, ...] = ()
    taken: Mapping[ChildKey, ForeignOwner] = field(default_factory=dict)
    refused: Mapping[ChildKey, str] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    decisions: Mapping[StageKey, Decision] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)

    def deployment_of(self, stage: StageKey) -> KubernetesObject | None:
        """A stage's Deployment as it is; None where it does not exist yet."""
        return self.children.get(ChildKey("Deployment", self.identity.child_name(stage)))

    def pods_of(self, stage: StageKey) -> list[KubernetesObject]:
        """Pods of one stage, by name."""
        mine = [pod for pod in self.pods if stage_of(pod) == (stage.name, stage.revision)]
        return sorted(mine, key=lambda pod: str(pod["metadata"]["name"]))
