"""What each strategy would cost, in words."""

from __future__ import annotations

from epd_operator.api.v1alpha1.rollout import RolloutStrategy
from epd_operator.objects.identity import revision_label
from epd_operator.plan.rollout.costs import Costs
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.sizes import Gpus

_RECREATE = "needs no further GPUs, but answers no requests until the new revision is ready"


def strategies_text(rollout: Rollout) -> str:
    """What to do, and what spec.rollout.strategy costs with each value."""
    costs, old = rollout.costs, revision_label(rollout.serving.name)
    if costs is None:
        return f"add nodes, or set spec.rollout.strategy to {RolloutStrategy.RECREATE}, which {_RECREATE}"
    return (
        "add nodes or set spec.rollout.strategy: "
        f"{RolloutStrategy.BLUE_GREEN} needs {gpus_text(costs.blue_green)} beside those of revision {old}"
        f"{_budget(costs.over_budget)}; {RolloutStrategy.ROLLING} {_rolling(costs)}; "
        f"{RolloutStrategy.RECREATE} {_RECREATE}"
    )


def _rolling(costs: Costs) -> str:
    over = _budget(costs.rolling_over_budget)
    if not costs.rolling:
        surge = f"up to {costs.surge} further GPUs in each pool" if costs.surge else "no further GPUs"
        return f"needs {surge}{over}, and has fewer pods that serve meanwhile"
    ways = f"spec.rollout.maxSurgeGpus {costs.surge}"
    if costs.fits_with_one:
        ways += ", or none with a higher spec.rollout.maxUnavailable"
    return f"needs {gpus_text(costs.rolling)} more{over}, with {ways}"


def _budget(gpus: int) -> str:
    return f" ({gpus} above spec.scaling.gpuBudget)" if gpus else ""


def gpus_text(gpus: Gpus) -> str:
    """The number of GPUs in each pool."""
    found = sorted((pool.name, count) for pool, count in gpus.items())
    return " and ".join(f"{n} GPU{'' if n == 1 else 's'} of pool {name}" for name, n in found) or "no GPUs"
