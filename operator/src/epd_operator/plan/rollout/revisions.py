"""Plans the revisions of an object: which exist, with which stages, and which of them gets the requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.rollout import RevisionRollout
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import INITIAL_REVISION, StageKey, all_stages
from epd_operator.objects.kinds import CONTROLLER_REVISION
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.replicas import recorded_replicas, replicas_before, replicas_of, settings_of
from epd_operator.plan.rollout.costs import Costs, costs_of
from epd_operator.plan.rollout.history import MAX_MARK, Record, kept_records, record_of, records_of
from epd_operator.plan.rollout.shares import Share
from epd_operator.plan.rollout.sizes import used_by
from epd_operator.plan.rollout.steps import Phase, Presence, RolloutStep, next_step
from epd_operator.plan.rollout.views import (
    gpus_of_removed,
    is_available,
    is_shared,
    live_revisions,
    live_stages,
    selects_revision,
    serving_revision,
    traffic_of,
    view_of,
)
from epd_operator.plan.stages.plan_stages import plan_stages
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.workloads.progress import progress_of


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One revision.

    Attributes:
        name: its name.
        spec: its spec; None if the record of it is lost or not valid any more, so its children are left as they are.
        stages: stages that exist or are about to start, with the replicas that they should have now.
        kept: if the spec is not known, the stages that have a Deployment.
    """

    name: str
    spec: EPDDeploymentSpec | None
    stages: tuple[StagePlan, ...] = ()
    kept: tuple[StageKey, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """The revisions of an object, and the step between them.

    Attributes:
        target: the revision of the present spec.
        serving: the revision that gets the requests.
        others: further revisions that have pods: they are being removed.
        records: the records of specs that should exist; none if they cannot be read.
        phase: what the rollout waits for.
        costs: what each strategy needs to replace the serving revision; None if nothing is to be replaced.
        gpus_beside: GPUs of pods of other revisions than the one that serves.
        share: the share of the traffic that the target gets before it serves; None if it gets none.
        has_step: whether a record has a step of a share, so the Service may select the pods of two revisions.
    """

    target: Revision
    serving: Revision
    others: tuple[Revision, ...] = ()
    records: tuple[Record, ...] = ()
    phase: Phase = Phase.NONE
    costs: Costs | None = None
    gpus_beside: int = 0
    share: Share | None = None
    has_step: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether the Service should select the frontends of both revisions."""
        return self.share is not None and self.share.is_open and self.target.name != self.serving.name

    @property
    def revisions(self) -> tuple[Revision, ...]:
        """All revisions, each once; the one that serves first."""
        target = () if self.target.name == self.serving.name else (self.target,)
        return (self.serving, *target, *self.others)

    @property
    def stages(self) -> tuple[StagePlan, ...]:
        """The stages of all revisions."""
        return tuple(stage for revision in self.revisions for stage in revision.stages)


def plan_rollout(spec: EPDDeploymentSpec, *, observation: Observation) -> Rollout:
    """Plan the revisions.

    Raises:
        ValueError: the spec is not valid; the message names the field.
    """
    if CONTROLLER_REVISION.kind in observation.unreadable:
        return _without_records(spec, observation=observation)
    records = records_of(observation)
    serves = serving_revision(observation, records=records)
    live = live_revisions(observation)
    present = record_of(
        spec, owner=observation.identity.name, records=records, serving=serves, live=live_stages(observation)
    )
    target, serving = present.revision, present.revision if serves is None else serves
    others = [name for name in live if name not in (target, serving)]

    def revision(name: str) -> Revision:
        wanted = spec if name == target else _recorded_spec(name, records=records, rollout=spec.rollout)
        return _revision(name, spec=wanted, serving=serving, observation=observation)

    known = {name: revision(name) for name in dict.fromkeys((serving, target, *others))}
    views = {
        name: view_of(name, spec=found.spec, stages=found.stages, records=records, observation=observation)
        for name, found in known.items()
    }
    removed = gpus_of_removed(observation, known=views.values())
    step = next_step(
        target=views[target],
        serving=views[serving],
        others=[views[name] for name in others],
        is_isolated=selects_revision(observation),
        policy=spec.rollout,
        budget=spec.scaling.gpu_budget,
        beside=removed,
        verdict=observation.verdict,
        traffic=traffic_of(present, serving=serving, observation=observation),
    )
    present = replace(
        _with_marks(present, step=step, serving=serving, policy=spec.rollout, observation=observation),
        has_served=present.has_served
        or (serves == target and is_available(known[target].stages, observation=observation)),
        # Recorded before the Service moves, so that nobody else can move it.
        serves=step.serving == target and (target != serving or views[target].has_served),
    )
    limit, shares = spec.rollout.revision_history_limit, is_shared(observation)
    kept = kept_records(records, present=present, live=live, limit=limit, is_shared=shares)
    existing = {
        name: _existing(known[name], presence, observation=observation) for name, presence in step.presence.items()
    }
    return Rollout(
        target=existing.get(target) or replace(known[target], stages=()),
        serving=existing[step.serving],
        others=tuple(revision for name, revision in existing.items() if name not in (target, step.serving)),
        records=tuple(kept),
        phase=step.phase,
        costs=None if target == serving else costs_of(views[serving], views[target], spec=spec),
        gpus_beside=sum(
            (used_by(v.stages) for name, v in views.items() if name != step.serving), start=removed
        ).total(),
        share=step.share,
        has_step=any(record.step for record in records),
    )


def _with_marks(
    present: Record, *, step: RolloutStep, serving: str, policy: RevisionRollout, observation: Observation
) -> Record:
    """The record of the present spec with the step of a share of the traffic, and the reason of a return."""
    # While the Service selects all frontends, the step says which of two revisions is new.
    kept = present.step if is_shared(observation) else ""
    mark, returned = (step.share.mark, step.share.returned) if step.share is not None else (None, present.returned)
    has_steps = bool(policy.steps) and present.revision != serving
    return replace(present, step=str(mark or kept), returned=returned[:MAX_MARK] if has_steps else "")


def _revision(name: str, *, spec: EPDDeploymentSpec | None, serving: str, observation: Observation) -> Revision:
    """A revision with all its stages; without a spec, with those that have a Deployment."""
    if spec is None:
        kept = (stage for stage in all_stages(name) if observation.deployment_of(stage) is not None)
        return Revision(name=name, spec=None, kept=tuple(kept))
    return Revision(
        name=name, spec=spec, stages=_planned(spec, revision=name, serving=serving, observation=observation)
    )


def _without_records(spec: EPDDeploymentSpec, *, observation: Observation) -> Rollout:
    """The rollout if the records cannot be read: the pods of the revision that serves are replaced in place.

    The record is planned nevertheless, so that the status reports the missing right.
    """
    name = serving_revision(observation, records=()) or INITIAL_REVISION
    record = replace(record_of(spec, owner=observation.identity.name, records=(), serving=name, live=()), revision=name)
    only = _revision(name, spec=spec, serving=name, observation=observation)
    return Rollout(target=only, serving=only, records=(record,))


def _recorded_spec(revision: str, *, records: Sequence[Record], rollout: RevisionRollout) -> EPDDeploymentSpec | None:
    """The latest valid spec of a revision, with the present settings of rollouts, which are not recorded."""
    specs = (record.spec() for record in records if record.revision == revision)
    found = next((spec for spec in specs if spec is not None), None)
    return None if found is None else found.model_copy(update={"rollout": rollout})


def _planned(
    spec: EPDDeploymentSpec, *, revision: str, serving: str, observation: Observation
) -> tuple[StagePlan, ...]:
    """All stages of a revision, with the replicas that they should have while it serves."""
    planned = plan_stages(spec, identity=observation.identity, revision=revision)
    return tuple(_with_replicas(stage, spec=spec, serving=serving, observation=observation) for stage in planned)


def _with_replicas(stage: StagePlan, *, spec: EPDDeploymentSpec, serving: str, observation: Observation) -> StagePlan:
    settings = settings_of(spec, stage.name)
    if settings is None:
        return stage
    return replace(stage, replicas=replicas_of(settings, stage=stage.key, serving=serving, observation=observation))


def _existing(revision: Revision, presence: Presence, *, observation: Observation) -> Revision:
    """The revision with the stages that should exist now."""
    stages = []
    for stage in revision.stages:
        live = observation.deployment_of(stage.key)
        if stage.name in presence.draining:
            stages.append(replace(stage, replicas=0, drained_from=replicas_before(live)))
        elif stage.name is StageName.FRONTEND and presence.frontends is not None:
            # Also if the number is the full one: the annotation stops autoscaling, which would see a part of the load.
            stages.append(replace(stage, replicas=presence.frontends, drained_from=stage.replicas))
        elif presence.running is None:
            stages += _sized(stage, replicas=presence.replicas.get(stage.name, stage.replicas), live=live)
        elif stage.name in presence.running:
            # It leaves, or is held: the number of its pods does not change any more.
            stages.append(replace(stage, replicas=progress_of(live).desired, drained_from=recorded_replicas(live)))
    return replace(revision, stages=tuple(stages))


def _sized(stage: StagePlan, *, replicas: int, live: KubernetesObject | None) -> Iterator[StagePlan]:
    """The stage with these replicas; nothing if it has no Deployment yet and may have no pods."""
    if replicas == stage.replicas:
        yield stage
    elif replicas or live is not None:
        yield replace(stage, replicas=replicas, drained_from=stage.replicas)
