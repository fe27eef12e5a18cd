"""What is seen of the revisions of an object: the input of `next_step`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from epd_operator.api.untyped import items, mapping
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.pools import Pool
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import REVISION_LABEL, StageKey, all_stages, revision_in, stage_of
from epd_operator.objects.kinds import DEPLOYMENT, SERVICE
from epd_operator.objects.pods import has_ended, is_live, is_overdue
from epd_operator.plan.devices.gpu import Placement, pool_named
from epd_operator.plan.observation import ChildKey, KubernetesObject, Observation
from epd_operator.plan.replicas import gpus_of, is_reduced, settings_of
from epd_operator.plan.rollout.history import Record
from epd_operator.plan.rollout.shares import Traffic, mark_in
from epd_operator.plan.rollout.sizes import GpuPool, Gpus, StageView
from epd_operator.plan.rollout.steps import RevisionView
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.workloads.progress import progress_of


def live_stages(observation: Observation) -> set[StageKey]:
    """Stages of all revisions that have a Deployment."""
    names = (key.name for key in observation.children if key.kind == DEPLOYMENT.kind)
    stages = (observation.identity.stage_of_workload(name) for name in names)
    return {stage for stage in stages if stage is not None}


def live_revisions(observation: Observation) -> list[str]:
    """Revisions that have a Deployment, in alphabetical order."""
    return sorted({stage.revision for stage in live_stages(observation)})


def serving_revision(observation: Observation, *, records: Sequence[Record]) -> str | None:
    """The revision that the Service selects; without a Service the latest that was given the requests.

    None if there is none. If the Service selects a revision that has no Deployments, or was not given the requests,
    while another one was, another client has changed it. If it selects all, a record says which of two is new.
    """
    live = live_revisions(observation)
    served = [record.revision for record in records if record.serves and record.revision in live]
    service = observation.children.get(ChildKey(SERVICE.kind, observation.identity.service_name))
    if is_shared(observation) and any(record.step for record in records):
        new = {record.revision for record in records if record.step}
        served = [revision for revision in served if revision not in new] or served
        if served:
            return served[0]
    if service is not None:
        selected = revision_in(_selector(service))
        is_known = not records or any(record.revision == selected for record in records)
        if (selected in live and (selected in served or not served)) or (not live and is_known):
            return selected
    return served[0] if served else next(iter(live), None)


def selects_revision(observation: Observation) -> bool:
    """Whether the live Service selects the pods of one revision only. That of an operator before revisions does not."""
    service = observation.children.get(ChildKey(SERVICE.kind, observation.identity.service_name))
    return service is not None and REVISION_LABEL in _selector(service)


def is_shared(observation: Observation) -> bool:
    """Whether the live Service selects the frontends of all revisions."""
    has_service = ChildKey(SERVICE.kind, observation.identity.service_name) in observation.children
    return has_service and not selects_revision(observation)


def traffic_of(present: Record, *, serving: str, observation: Observation) -> Traffic:
    """What is seen of the traffic of the revision of the present spec.

    Args:
        present: the record of the present spec.
        serving: the revision that gets the requests.
        observation: the state of the cluster.
    """
    both = (present.revision, serving)
    frontends = (stage for stage in live_stages(observation) if stage.name is StageName.FRONTEND)
    pods = (pod for pod in observation.pods if stage_of(pod)[0] == StageName.FRONTEND)
    others = [stage for stage in frontends if stage.revision not in both]
    others_pods = [p for p in pods if stage_of(p)[1] not in both and _may_run(p, observation=observation)]
    return Traffic(
        mark=mark_in(present.step),
        returned=present.returned,
        is_open=is_shared(observation),
        is_alone=not others and not others_pods,
        now=observation.at,
        comparison=observation.comparison,
    )


def has_unlabelled_frontends(observation: Observation) -> bool:
    """Whether frontends exist that an operator before revisions has created, and that have no revision label."""
    return any(
        is_live(pod) and REVISION_LABEL not in mapping(pod["metadata"].get("labels"))
        for pod in observation.pods_of(StageKey(StageName.FRONTEND))
    )


def _selector(service: Mapping[str, object]) -> Mapping[str, object]:
    return mapping(mapping(service.get("spec")).get("selector"))


def view_of(
    revision: str,
    *,
    spec: EPDDeploymentSpec | None,
    stages: Sequence[StagePlan],
    records: Sequence[Record],
    observation: Observation,
) -> RevisionView:
    """What is seen of one revision.

    Args:
        revision: its name.
        spec: its spec; None if it is not known.
        stages: its planned stages; empty if its spec is not known.
        records: the records of the object.
        observation: the state of the cluster.
    """
    own = [record for record in records if record.revision == revision]
    pods = {
        stage.name: _pods(stage, observation=observation)
        for stage in all_stages(revision)
        if observation.deployment_of(stage) is not None
    }
    was_given_requests = any(record.serves for record in own) if own else bool(pods)
    return RevisionView(
        name=revision,
        pods=pods,
        stages={stage.name: _stage_view(stage, spec=spec, observation=observation) for stage in stages if spec},
        is_complete=bool(stages) and all(_is_complete(stage, observation=observation) for stage in stages),
        has_served=was_given_requests or is_available(stages, observation=observation),
        is_known=bool(stages),
        lost=next((s.name for s in stages if not progress_of(observation.deployment_of(s.key)).ready), ""),
    )


def _stage_view(stage: StagePlan, *, spec: EPDDeploymentSpec, observation: Observation) -> StageView:
    settings, progress = settings_of(spec, stage.name), progress_of(observation.deployment_of(stage.key))
    gpus = gpus_of(settings) if settings is not None else 0
    is_settled = progress.is_observed and progress.pods == progress.updated
    return StageView(
        full=stage.replicas,
        gpus=gpus,
        pool=_gpu_pool(pool_named(spec, stage=stage.name, name=stage.pool)) if stage.pool and gpus else None,
        desired=progress.desired,
        pods=_pods(stage.key, observation=observation),
        ready=min(progress.ready, progress.updated) if is_settled else 0,
        is_reduced=is_reduced(observation.deployment_of(stage.key)),
    )


def _gpu_pool(pool: Pool) -> GpuPool:
    selector = mapping(Placement(pool=pool).scheduling().get("nodeSelector"))
    return GpuPool(resource=pool.gpu.resource_name, selector=frozenset(selector.items()), name=pool.name)


def gpus_of_removed(observation: Observation, *, known: Iterable[RevisionView]) -> Gpus:
    """GPUs of pods that have not ended yet although all Deployments of their revision are deleted."""
    views = tuple(known)
    names = {view.name for view in views}
    pools = {stage.pool for view in views for stage in view.stages.values() if stage.pool is not None}
    found: Gpus = Counter()
    for pod in observation.pods:
        if stage_of(pod)[1] in names or not _may_run(pod, observation=observation):
            continue
        spec = mapping(pod.get("spec"))
        limits = [mapping(mapping(c.get("resources")).get("limits")) for c in items(spec.get("containers"))]
        for pool in pools:
            if pool.selector <= mapping(spec.get("nodeSelector")).items():
                amounts = (str(own.get(pool.resource)) for own in limits)
                found[pool] += sum(int(n) for n in amounts if n.isascii() and n.isdigit())
    return +found


def _pods(stage: StageKey, *, observation: Observation) -> int:
    """Pods of a stage that may still answer requests, including terminating ones."""
    progress = progress_of(observation.deployment_of(stage))
    running = [pod for pod in observation.pods_of(stage) if _may_run(pod, observation=observation)]
    return max(len(running), progress.pods, 0 if progress.is_observed else progress.desired)


def _may_run(pod: KubernetesObject, *, observation: Observation) -> bool:
    """Whether a pod may still have processes, and so its GPUs: it has not ended, and its node is not lost."""
    now = observation.at
    return not has_ended(pod) and not (now is not None and is_overdue(pod, now=now))


def _is_complete(stage: StagePlan, *, observation: Observation) -> bool:
    progress = progress_of(observation.deployment_of(stage.key))
    ready = min(progress.ready, progress.updated)
    return progress.is_observed and progress.pods == progress.updated and ready >= stage.replicas


def is_available(stages: Sequence[StagePlan], *, observation: Observation) -> bool:
    """Whether every stage has a ready pod."""
    return bool(stages) and all(progress_of(observation.deployment_of(stage.key)).ready for stage in stages)
