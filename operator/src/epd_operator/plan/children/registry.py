"""The registry of the kinds of children, in the order in which children are applied.

A new kind of child is a module with its ChildKind, and a line here. The planner, the drift check, the watches, the
observation, the chart's roles (``make crds``) and the tests use this registry.
"""

from __future__ import annotations

from epd_operator.objects.kinds import EPD_DEPLOYMENT, POD, Kind
from epd_operator.plan.children.child_kind import ChildKind
from epd_operator.plan.children.disruption_budget import DISRUPTION_BUDGETS
from epd_operator.plan.children.network import NETWORK_POLICIES, SERVICES
from epd_operator.plan.children.rbac import ROLE_BINDINGS, SERVICE_ACCOUNTS
from epd_operator.plan.children.revision_history import CONTROLLER_REVISIONS
from epd_operator.plan.children.stage_scale import STAGE_SCALES
from epd_operator.plan.children.workload import DEPLOYMENTS

CHILDREN: tuple[ChildKind, ...] = (
    # First, because an operator that starts in the middle of a rollout must know the earlier spec.
    CONTROLLER_REVISIONS,
    SERVICE_ACCOUNTS,
    ROLE_BINDINGS,
    SERVICES,
    # These protect pods, so they are applied before the Deployments.
    NETWORK_POLICIES,
    DISRUPTION_BUDGETS,
    STAGE_SCALES,
    DEPLOYMENTS,
)

CHILD_KINDS = tuple(child.kind for child in CHILDREN)
OPTIONAL_KINDS = tuple(child.kind for child in CHILDREN if child.optional)
WATCHED_KINDS = (EPD_DEPLOYMENT, *CHILD_KINDS, POD)

_BY_NAME = {child.kind.kind: child for child in CHILDREN}


def child_kind(name: str) -> ChildKind:
    """The entry of a kind.

    Raises:
        KeyError: the operator has no children of this kind.
    """
    return _BY_NAME[name]


def kind_named(name: str) -> Kind:
    """The kind of children with this name.

    Raises:
        KeyError: the operator has no children of this kind.
    """
    return child_kind(name).kind
