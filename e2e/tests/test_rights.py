"""Compares the requests of ServiceAccounts in all other tests with the rights that the chart grants. Runs last."""

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
USED_IN_OTHER_TESTS = {
    # Checked within another request, which is not in the log; see tests/security/test_rights.py.
    f"bind clusterroles.rbac.authorization.k8s.io {WORKER_ROLE}",
    "update epddeployments/finalizers.epd.dev",
    # Used in tests/security/test_rights.py: no test here uses an external autoscaler,
    *(f"{verb} epdstagescales.epd.dev" for verb in ("get", "create", "patch", "delete")),
    "patch epdstagescales/status.epd.dev",
    # changes the topology of an object, edits one more often than revisionHistoryLimit, sets budgets or policies to
    # Unmanaged, or installs another role for workers.
    # (Idle pods get no deletion cost; an Event is patched only if it occurs again; Events are listed only of pods that
    # do not start.)
    "patch pods.core",
    "list events.core",
    # tests/api/test_wrong_workers.py: no worker here answers wrongly.
    "create pods/eviction.core",
    "patch events.events.k8s.io",
    "delete controllerrevisions.apps",
    "delete deployments.apps",
    "delete networkpolicies.networking.k8s.io",
    "delete poddisruptionbudgets.policy",
    "delete rolebindings.rbac.authorization.k8s.io",
}
OTHER_TESTS = {"test_topologies.py", "test_lifecycle.py", "test_autoscaling.py"}


@pytest.fixture(scope="module")
def log(request: pytest.FixtureRequest, installation: Installation) -> Path:
    """The audit log, after all other tests."""
    missing = OTHER_TESTS - {item.path.name for item in request.session.items}
    if missing:
        pytest.skip(f"only a run of all tests uses every right; missing in this run: {', '.join(sorted(missing))}")
    return audit_log_of(installation.where.state)


def granted(kubectl: Kubectl, *, namespace: str, account: str) -> set[rights.Grant]:
    """The rights that the API server grants."""
    kinds = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    found = [item for kind in kinds for item in kubectl.items(f"{kind}.rbac.authorization.k8s.io", "-A")]
    return rights.grants(found, namespace=namespace, account=account)


def test_no_request_of_the_operator_was_refused_and_it_used_every_right(installation: Installation, log: Path) -> None:
    used = rights.uses(audit.read(log), user=rights.user_of(SYSTEM_NAMESPACE, OPERATOR))
    assert used
    assert rights.refused(used) == []
    left = rights.unused(granted(installation.kubectl, namespace=SYSTEM_NAMESPACE, account=OPERATOR), used)
    assert sorted(left - USED_IN_OTHER_TESTS) == []


def test_no_request_of_worker_pods_was_refused_and_they_used_every_right(installation: Installation, log: Path) -> None:
    role = next(r for r in installation.kubectl.items("clusterroles") if r["metadata"]["name"] == WORKER_ROLE)
    used = rights.uses(audit.read(log), user=rights.user_of("default", "*-discovery"))
    assert used
    grants = set(rights.of_rules(role["rules"], role=WORKER_ROLE))
    # When a deployment is deleted, pods may run longer than their RoleBinding exists: that is not a missing right.
    missing = {use for use in used if use.code == 403 and not any(grant.covers(use) for grant in grants)}
    assert rights.refused(missing) == []
    assert sorted(rights.unused(grants, used)) == []
