"""How many pods two revisions can have at the same time if there are not enough GPUs for both. Whole pods, by pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from epd_operator.api.v1alpha1.topology import StageName


@dataclass(frozen=True, kw_only=True)
class GpuPool:
    """Nodes with GPUs. Two pools that ask for the same resource on the same nodes are one, whatever their names.

    Attributes:
        resource: the extended resource that pods request.
        selector: labels of the nodes.
        name: its name in the spec, for messages.
    """

    resource: str
    selector: frozenset[tuple[str, str]] = frozenset()
    name: str = field(default="", compare=False)


@dataclass(frozen=True, kw_only=True)
class StageView:
    """What is planned, and seen, of one stage of a revision.

    Attributes:
        full: replicas that it should have while its revision serves alone.
        gpus: GPUs of each pod; 0 for frontends.
        pool: the pool of its GPUs; None without GPUs.
        desired: replicas of its Deployment; 0 if there is none.
        pods: pods that may have GPUs, including terminating ones.
        ready: ready pods of the present template; 0 while pods of another one exist.
        is_reduced: whether a rollout has given it fewer replicas than the full ones.
    """

    full: int
    gpus: int = 0
    pool: GpuPool | None = None
    desired: int = 0
    pods: int = 0
    ready: int = 0
    is_reduced: bool = False


Stages = Mapping[StageName, StageView]
Replicas = Mapping[StageName, int]
Gpus = Counter[GpuPool]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The GPUs that all revisions together may use.

    Attributes:
        pools: GPUs in each pool of the revision that serves and of the target.
        total: GPUs in all pools together; None means no limit.
    """

    pools: Mapping[GpuPool, int]
    total: int | None = None

    def missing(self, used: Gpus, more: Gpus) -> Gpus:
        """What these further GPUs lack in their pools."""
        return +Counter({pool: used[pool] + n - self.pools.get(pool, 0) for pool, n in more.items()})

    def missing_in_total(self, used: Gpus, more: Gpus) -> int:
        """What they lack in all pools together."""
        return max(0, used.total() + more.total() - self.total) if self.total is not None and more else 0

    def allow(self, used: Gpus, more: Gpus) -> bool:
        """Whether these further GPUs may be used. Excess in other pools does not matter."""
        return not self.missing(used, more) and not self.missing_in_total(used, more)


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of both revisions until the new one gets the requests."""

    old: Replicas
    new: Replicas


def limits_of(serving: Stages, target: Stages, *, surge: int, budget: int | None) -> Limits:
    """The limits while the given revision serves: its GPUs and the surge, in pools that it does not use all GPUs.

    Args:
        serving: its stages.
        target: the stages of the revision that replaces it.
        surge: ``spec.rollout.maxSurgeGpus``.
        budget: ``spec.scaling.gpuBudget``. A revision that alone needs more is not limited by it.
    """
    own, further = gpus_with(serving, full_of(serving)), gpus_with(target, full_of(target))
    total = None if budget is None else max(budget, own.total())
    return Limits(pools={pool: count + surge for pool, count in {**further, **own}.items()}, total=total)


def full_of(stages: Stages) -> dict[StageName, int]:
    """The full size of a revision."""
    return {name: stage.full for name, stage in stages.items()}


def least_of(stages: Stages, *, max_unavailable: int | str) -> dict[StageName, int]:
    """The fewest pods with which a revision may serve during a rollout. Frontends need no GPU, so all of them stay."""
    return {
        name: max(1, stage.full - _missing(max_unavailable, full=stage.full)) if stage.gpus else stage.full
        for name, stage in stages.items()
    }


def _missing(value: int | str, *, full: int) -> int:
    return value if isinstance(value, int) else -(-full * int(value.removesuffix("%")) // 100)


def gpus_with(stages: Stages, replicas: Replicas) -> Gpus:
    """The GPUs of a revision with this number of replicas, by pool."""
    found: Gpus = Counter()
    for name, stage in stages.items():
        if stage.pool is not None:
            found[stage.pool] += replicas.get(name, 0) * stage.gpus
    return +found


def used_by(stages: Stages, *, replicas: Replicas | None = None) -> Gpus:
    """The GPUs of a revision with these replicas, by default those of its Deployments, and of its pods that leave."""
    pods = {}
    for name, stage in stages.items():
        wanted = stage.desired if replicas is None else replicas[name]
        pods[name] = wanted + max(0, stage.pods - min(stage.desired, wanted))
    return gpus_with(stages, pods)


def has_least(stages: Stages, *, max_unavailable: int | str) -> bool:
    """Whether a revision has the ready pods that it needs to serve during a rollout."""
    least = least_of(stages, max_unavailable=max_unavailable)
    return bool(stages) and all(stage.ready >= least[name] for name, stage in stages.items())


def sizes_of(old: Stages, new: Stages, *, limits: Limits, max_unavailable: int | str) -> Sizes | None:
    """The largest sizes that fit together: first of the new revision, then of the old one. None if nothing fits.

    They follow from the full sizes alone, so they are the same at each step.
    """
    least_old = least_of(old, max_unavailable=max_unavailable)
    least_new = least_of(new, max_unavailable=max_unavailable)
    beside = gpus_with(old, least_old)
    if not limits.allow(beside, gpus_with(new, least_new)):
        return None
    new_sizes = grown(new, least_new, most=full_of(new), beside=beside, limits=limits)
    beside = gpus_with(new, new_sizes)
    return Sizes(old=grown(old, least_old, most=full_of(old), beside=beside, limits=limits), new=new_sizes)


def next_replicas(stages: Stages, *, most: Replicas, beside: Gpus, limits: Limits) -> dict[StageName, int]:
    """The replicas that a revision may have now: as they are, or more where GPUs have become free.

    Args:
        stages: the stages of the revision.
        most: replicas at which a stage stops to grow; a stage that has more is scaled down.
        beside: GPUs that other revisions use.
        limits: the limits.
    """
    start = {name: min(stage.desired, most[name]) for name, stage in stages.items()}
    # Pods that terminate, or are about to, still have their GPUs.
    leaving = used_by(stages, replicas=start) - gpus_with(stages, start)
    return grown(stages, start, most=most, beside=beside + leaving, limits=limits)


def grown(stages: Stages, start: Replicas, *, most: Replicas, beside: Gpus, limits: Limits) -> dict[StageName, int]:
    """The replicas of a revision when it has grown, one pod after the other, as far as the limits allow.

    The next pod is one of the stage with the lowest share of its replicas.

    Args:
        stages: the stages of the revision.
        start: replicas that are not taken away.
        most: replicas at which a stage stops to grow.
        beside: GPUs that other pods use.
        limits: the limits.
    """
    found = dict(start)
    used = beside + gpus_with(stages, found)
    growing = {name: gpus_with(stages, {name: 1}) for name in stages if found[name] < most[name]}
    while growing:
        name = min(growing, key=lambda name: (found[name] / most[name], name))
        if not limits.allow(used, growing[name]):
            del growing[name]
            continue
        used += growing[name]
        found[name] += 1
        if found[name] >= most[name]:
            del growing[name]
    return found
