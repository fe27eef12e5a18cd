"""What each strategy needs to replace the revision that serves."""

from __future__ import annotations

from dataclasses import dataclass

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.plan.rollout.sizes import Gpus, full_of, gpus_with, least_of, limits_of
from epd_operator.plan.rollout.steps import RevisionView


@dataclass(frozen=True, kw_only=True)
class Costs:
    """GPUs beside those of the revision that serves.

    Attributes:
        blue_green: what strategy BlueGreen needs: all GPUs of the new revision.
        over_budget: how many of them are above ``spec.scaling.gpuBudget``.
        rolling: what strategy Rolling lacks in each pool with the present settings; empty if it lacks nothing.
        rolling_over_budget: the same, of ``spec.scaling.gpuBudget``.
        surge: ``spec.rollout.maxSurgeGpus`` with which it lacks nothing in the pools.
        fits_with_one: whether it lacks nothing in the pools if only one pod of each stage has to remain.
    """

    blue_green: Gpus
    over_budget: int
    rolling: Gpus
    rolling_over_budget: int
    surge: int
    fits_with_one: bool


def costs_of(old: RevisionView, new: RevisionView, *, spec: EPDDeploymentSpec) -> Costs:
    """The costs of replacing one revision by the other, with the present settings."""
    policy = spec.rollout
    limits = limits_of(old.stages, new.stages, surge=policy.max_surge_gpus, budget=spec.scaling.gpu_budget)
    before, after = (gpus_with(view.stages, full_of(view.stages)) for view in (old, new))

    def least(view: RevisionView, max_unavailable: int | str) -> Gpus:
        return gpus_with(view.stages, least_of(view.stages, max_unavailable=max_unavailable))

    must = least(old, policy.max_unavailable), least(new, policy.max_unavailable)
    missing = limits.missing(*must)
    return Costs(
        blue_green=after,
        over_budget=limits.missing_in_total(before, after),
        rolling=missing,
        rolling_over_budget=limits.missing_in_total(*must),
        surge=policy.max_surge_gpus + max(missing.values(), default=0),
        fits_with_one=not limits.missing(least(old, "100%"), least(new, "100%")),
    )
