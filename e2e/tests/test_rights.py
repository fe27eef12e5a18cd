"""What ServiceAccounts asked for in all the other stories, held against what the chart grants them. Runs last."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_local.cluster import audit
from epd_local.cluster.control_plane import audit_log_of
from epd_local.demo.installation import SYSTEM_NAMESPACE, Installation
from epd_local.demo.kubectl import Kubectl
from support import rights

OPERATOR = "epd-operator"
WORKER_ROLE = "epd-worker-discovery"
PLAYED_ELSEWHERE = {
    # Asked for within another request, which the log does not tell; proved in tests/security/test_rights.py.
    f"bind clusterroles.rbac.authorization.k8s.io {WORKER_ROLE}",
    "update epddeployments/finalizers.epd.dev",
    # Used in tests/security/test_rights.py: no story here hands a stage's replicas to another autoscaler, …
    *(f"{verb} epdstagescales.epd.dev" for verb in ("get", "create", "patch", "delete")),
    "patch epdstagescales/status.epd.dev",
    # … changes the topology of an object, takes its protection away, or installs with another role for workers.
    # (Idle pods cost nothing to delete, so nothing is written; Events repeat only where something breaks twice.)
    "patch pods.core",
    "patch events.events.k8s.io",
    "delete deployments.apps",
    "delete networkpolicies.networking.k8s.io",
    "delete poddisruptionbudgets.policy",
    "delete rolebindings.rbac.authorization.k8s.io",
}
STORIES = {"test_topologies.py", "test_lifecycle.py", "test_autoscaling.py"}


@pytest.fixture(scope="module")
def log(request: pytest.FixtureRequest, installation: Installation) -> Path:
    """The audit log, once the stories have been played."""
    missing = STORIES - {item.path.name for item in request.session.items}
    if missing:
        pytest.skip(f"only a run of all stories uses every right; not in this one: {', '.join(sorted(missing))}")
    return audit_log_of(installation.where.state)


def granted(kubectl: Kubectl, *, namespace: str, account: str) -> set[rights.Grant]:
    """What the API server would grant."""
    kinds = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    found = [item for kind in kinds for item in kubectl.items(f"{kind}.rbac.authorization.k8s.io", "-A")]
    return rights.grants(found, namespace=namespace, account=account)


def test_the_operator_was_refused_nothing_and_used_every_right(installation: Installation, log: Path) -> None:
    used = rights.uses(audit.read(log), user=rights.user_of(SYSTEM_NAMESPACE, OPERATOR))
    assert used
    assert rights.refused(used) == []
    left = rights.unused(granted(installation.kubectl, namespace=SYSTEM_NAMESPACE, account=OPERATOR), used)
    assert sorted(left - PLAYED_ELSEWHERE) == []


def test_worker_pods_were_refused_nothing_and_used_every_right(installation: Installation, log: Path) -> None:
    role = next(r for r in installation.kubectl.items("clusterroles") if r["metadata"]["name"] == WORKER_ROLE)
    used = rights.uses(audit.read(log), user=rights.user_of("default", "*-discovery"))
    assert used
    grants = set(rights.of_rules(role["rules"], role=WORKER_ROLE))
    # Pods may outlive their RoleBinding when a deployment is deleted: what the role grants was not missing then.
    missing = {use for use in used if use.code == 403 and not any(grant.covers(use) for grant in grants)}
    assert rights.refused(missing) == []
    assert sorted(rights.unused(grants, used)) == []
