"""The Service in front of the frontends, and the NetworkPolicies: which clients can connect to the pods.

Connections that the pods open themselves are not limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec, Management
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import DEPLOYMENT_LABEL, Identity, StageKey
from epd_operator.objects.kinds import NETWORK_POLICY, SERVICE
from epd_operator.plan.children.child_kind import ChildContext, ChildKind
from epd_operator.plan.drift import DriftRules
from epd_operator.plan.pods.process import HTTP_PORT, SYSTEM_PORT, TELEMETRY_PORT
from epd_operator.plan.stages.stage_plan import StagePlan

FRONTEND = StageKey(StageName.FRONTEND)
"""The frontends that receive the requests of clients."""


def endpoint_url(spec: EPDDeploymentSpec, *, identity: Identity) -> str:
    """Where clients inside the cluster find the OpenAI-compatible API."""
    return f"http://{identity.service_name}.{identity.namespace}.svc:{spec.frontend.service.port}"


def _service(context: ChildContext) -> Iterator[dict[str, Any]]:
    """One stable address for clients, in every topology."""
    identity, published = context.identity, context.spec.frontend.service
    metadata = identity.metadata(identity.service_name, FRONTEND)
    if published.annotations:
        metadata["annotations"] = dict(published.annotations)
    yield {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": metadata,
        "spec": {
            "type": published.type,
            "selector": identity.selector(FRONTEND),
            "ports": [{"name": "http", "port": published.port, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _network_policies(context: ChildContext) -> Iterator[dict[str, Any]]:
    """One policy for all pods, and one that opens the frontends. Together they allow what either of them allows."""
    identity = context.identity
    if context.spec.network_policy.mode is not Management.MANAGED:
        return
    mine = {DEPLOYMENT_LABEL: identity.name}
    yield _policy(
        identity.metadata(identity.policy_name),
        pods=mine,
        ingress=[
            # All ports: Dynamo's requests and events and UCX use ports that the kernel chooses.
            {"from": [{"podSelector": {"matchLabels": mine}}]},
            # All pods of the cluster: these ports only report numbers and accept no commands.
            {"from": [{"namespaceSelector": {}}], "ports": [_tcp(port) for port in metrics_ports(context.stages)]},
        ],
    )
    yield _policy(
        identity.metadata(identity.child_name(FRONTEND), FRONTEND),
        pods=identity.selector(FRONTEND),
        ingress=[{"ports": [_tcp(HTTP_PORT)]}],
    )


def metrics_ports(stages: Iterable[StagePlan]) -> list[int]:
    """Ports of Dynamo's and NIXL's metrics of all processes. No ranges: not every network plugin supports them."""
    slots = {
        port["containerPort"] - SYSTEM_PORT
        for stage in stages
        for container in stage.pod_template["spec"]["containers"]
        for port in container.get("ports", ())
        if port["name"].startswith("system")
    }
    return [base + slot for base in (SYSTEM_PORT, TELEMETRY_PORT) for slot in sorted(slots)]


def _policy(metadata: dict[str, Any], *, pods: dict[str, str], ingress: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": NETWORK_POLICY.api_version,
        "kind": NETWORK_POLICY.kind,
        "metadata": metadata,
        "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}


SERVICES = ChildKind(
    kind=SERVICE,
    build=_service,
    purpose="the address of the frontends",
    absence="new deployments have no endpoint",
    drift=DriftRules(exact_fields=frozenset({"selector"})),
    # It is never deleted by the operator: it is the same in every topology.
    verbs=("get", "list", "watch", "create", "patch"),
    optional=True,
)

NETWORK_POLICIES = ChildKind(
    kind=NETWORK_POLICY,
    build=_network_policies,
    purpose="limits which clients can connect to the pods",
    absence="all pods of the cluster can connect to the pods",
    drift=DriftRules(exact_fields=frozenset({"ingress", "podSelector"})),
    optional=True,
)
