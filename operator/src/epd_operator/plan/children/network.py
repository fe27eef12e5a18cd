"""The Service in front of the frontend pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from epd_operator.api.v1alpha1.epddeployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import DEPLOYMENT_LABEL, Identity
from epd_operator.plan.pods.process import HTTP_PORT, SYSTEM_PORT, TELEMETRY_PORT
from epd_operator.plan.stages.stage_plan import StagePlan


def service(spec: EPDDeploymentSpec, *, identity: Identity) -> dict[str, Any]:
    """One stable address for clients, whatever the topology."""
    metadata = identity.metadata(identity.service_name, StageName.FRONTEND)
    if spec.frontend.service.annotations:
        metadata["annotations"] = dict(spec.frontend.service.annotations)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "type": spec.frontend.service.type,
            "selector": identity.selector(StageName.FRONTEND),
            "ports": [
                {"name": "http", "port": spec.frontend.service.port, "targetPort": "http", "protocol": "TCP"},
            ],
        },
    }


def url(spec: EPDDeploymentSpec, *, identity: Identity) -> str:
    """Where clients inside the cluster find the OpenAI-compatible API."""
    return f"http://{identity.service_name}.{identity.namespace}.svc:{spec.frontend.service.port}"


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
