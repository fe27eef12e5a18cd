"""The revision that should be asked, and whom to ask."""

from __future__ import annotations

from dataclasses import dataclass

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.stages import EncoderScope
from epd_operator.api.v1alpha1.topology import StageName, Topology
from epd_operator.loads.targets import Target, address_of, targets_of
from epd_operator.objects.identity import StageKey
from epd_operator.objects.pods import is_live, is_ready, name_of
from epd_operator.plan.observation import Observation
from epd_operator.plan.pods.process import HTTP_PORT
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.steps import Phase
from epd_operator.verification.requests import Question, known_questions

MAX_FRONTENDS = 3
"""Frontends that are asked: they discover the same workers, so further ones would show nothing new."""
MAX_WORKERS = 64
ANSWERING = (StageName.WORKER, StageName.GROUP, StageName.PD)
"""Stages whose pods a frontend sends requests to."""


@dataclass(frozen=True, kw_only=True)
class FrontendAddress:
    """A ready frontend: name of its pod, and URL for requests."""

    pod: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A revision that can be asked.

    Attributes:
        revision: its name.
        model: name of the model that clients use.
        frontends: its ready frontends.
        workers: metrics pages of its ready pods that frontends send requests to.
        encoders: number of encoders that each worker uses.
    """

    revision: str
    model: str
    frontends: tuple[FrontendAddress, ...]
    workers: tuple[Target, ...] = ()
    encoders: int = 0


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A revision that is ready, but does not get the requests yet.

    Attributes:
        asked: the revision.
        needs_pictures: whether its model must take pictures.
        questions: the requests of the spec, whose answers are known.
        reference: the revision that serves; None if its spec is not known.
    """

    asked: Asked
    needs_pictures: bool
    questions: tuple[Question, ...] = ()
    reference: Asked | None = None


def candidate_of(rollout: Rollout, *, observation: Observation) -> Candidate | None:
    """The revision to ask now; None if there is none, or none of its frontends has an address."""
    spec, serving = rollout.target.spec, rollout.serving
    if rollout.phase is not Phase.VERIFYING or spec is None:
        return None
    asked = asked_of(spec, revision=rollout.target.name, observation=observation)
    if not asked.frontends:
        return None
    return Candidate(
        asked=asked,
        needs_pictures=spec.topology is not Topology.AGGREGATED,
        questions=known_questions(spec.verification),
        reference=asked_of(serving.spec, revision=serving.name, observation=observation) if serving.spec else None,
    )


def asked_of(spec: EPDDeploymentSpec, *, revision: str, observation: Observation) -> Asked:
    """The frontends and workers of a revision that are ready."""
    frontends = [
        FrontendAddress(pod=name_of(pod), url=f"http://{host}:{HTTP_PORT}/v1/chat/completions")
        for pod in observation.pods_of(StageKey(StageName.FRONTEND, revision))
        if is_live(pod) and is_ready(pod) and name_of(pod) and (host := address_of(pod)) is not None
    ]
    pods = [pod for stage in ANSWERING for pod in observation.pods_of(StageKey(stage, revision))]
    workers = [target for target in targets_of(pods) if target.ready]
    encoders = sum(is_live(p) and is_ready(p) for p in observation.pods_of(StageKey(StageName.ENCODER, revision)))
    if spec.group is not None:
        is_shared = spec.group.encoder.scope is EncoderScope.DEPLOYMENT
        encoders = spec.group.encoder.count * (len(workers) if is_shared else 1)
    return Asked(
        revision=revision,
        model=spec.model.served_name or spec.model.name,
        frontends=tuple(frontends[:MAX_FRONTENDS]),
        workers=tuple(workers[:MAX_WORKERS]),
        encoders=encoders,
    )
