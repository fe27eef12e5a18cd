"""The NetworkPolicies: who may connect to the pods. What the pods connect to is not limited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from epd_operator.plan.identity import DEPLOYMENT_LABEL, Identity, StageName
from epd_operator.plan.process import HTTP_PORT, SYSTEM_PORT, TELEMETRY_PORT
from epd_operator.plan.stages.model import StagePlan


def network_policies(*, identity: Identity, stages: Iterable[StagePlan]) -> list[dict[str, Any]]:
    """One policy for all pods, and one that opens the frontends; together they allow what either of them allows."""
    mine = {DEPLOYMENT_LABEL: identity.name}
    return [
        _policy(
            identity.metadata(identity.policy_name),
            pods=mine,
            ingress=[
                # All ports: Dynamo's requests and events and UCX take ports that the system chooses.
                {"from": [{"podSelector": {"matchLabels": mine}}]},
                # All pods of the cluster: what listens there gives numbers and takes no commands.
                {"from": [{"namespaceSelector": {}}], "ports": [_tcp(port) for port in metrics_ports(stages)]},
            ],
        ),
        _policy(
            identity.metadata(identity.child_name(StageName.FRONTEND), StageName.FRONTEND),
            pods=identity.selector(StageName.FRONTEND),
            ingress=[{"ports": [_tcp(HTTP_PORT)]}],
        ),
    ]


def metrics_ports(stages: Iterable[StagePlan]) -> list[int]:
    """Ports of Dynamo's and of NIXL's metrics of all processes. Single ports: not every network plugin knows ranges."""
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
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {"podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"], "ingress": ingress},
    }


def _tcp(port: int) -> dict[str, Any]:
    return {"protocol": "TCP", "port": port}
