"""The revision whose frontends should be asked."""

from __future__ import annotations

from dataclasses import dataclass

from epd_operator.api.v1alpha1.topology import StageName, Topology
from epd_operator.loads.targets import address_of
from epd_operator.objects.identity import StageKey
from epd_operator.objects.pods import is_live, is_ready, name_of
from epd_operator.plan.observation import Observation
from epd_operator.plan.pods.process import HTTP_PORT
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.steps import Phase

MAX_FRONTENDS = 3
"""Frontends that are asked: they discover the same workers, so further ones would show nothing new."""


@dataclass(frozen=True, kw_only=True)
class FrontendAddress:
    """A ready frontend: name of its pod, and URL for requests."""

    pod: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A revision that is ready, but does not get the requests yet.

    Attributes:
        revision: its name.
        model: name of the model that clients use.
        needs_pictures: whether it has encoders.
        frontends: frontends to ask.
    """

    revision: str
    model: str
    needs_pictures: bool
    frontends: tuple[FrontendAddress, ...]


def candidate_of(rollout: Rollout, *, observation: Observation) -> Candidate | None:
    """The revision to ask now; None if there is none, or none of its frontends has an address."""
    spec = rollout.target.spec
    if rollout.phase is not Phase.VERIFYING or spec is None:
        return None
    frontends = [
        FrontendAddress(pod=name_of(pod), url=f"http://{host}:{HTTP_PORT}/v1/chat/completions")
        for pod in observation.pods_of(StageKey(StageName.FRONTEND, rollout.target.name))
        if is_live(pod) and is_ready(pod) and name_of(pod) and (host := address_of(pod)) is not None
    ]
    if not frontends:
        return None
    return Candidate(
        revision=rollout.target.name,
        model=spec.model.served_name or spec.model.name,
        needs_pictures=spec.topology is not Topology.AGGREGATED,
        frontends=tuple(frontends[:MAX_FRONTENDS]),
    )
