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
from epd_operator.plan.pods.process import HTTP_PORT, SYSTEM_PORT, SYSTEM_PORT_NAME, TELEMETRY_PORT
from epd_operator.plan.rollout.views import has_unlabelled_frontends, selects_revision
from epd_operator.plan.stages.stage_plan import StagePlan


def endpoint_url(spec: EPDDeploymentSpec, *, identity: Identity) -> str:
    """URL of the OpenAI-compatible API inside the cluster."""
    return f"http://{identity.service_name}.{identity.namespace}.svc:{spec.frontend.service.port}"


def _service(context: ChildContext) -> Iterator[dict[str, Any]]:
    """One stable address for clients, in every topology: the frontends of the revision that serves."""
    identity, service = context.identity, context.spec.frontend.service
    metadata = identity.metadata(identity.service_name, labels=identity.labels(StageName.FRONTEND))
    if service.annotations:
        metadata["annotations"] = dict(service.annotations)
    yield {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": metadata,
        "spec": {
            "type": service.type,
            "selector": _selector(context),
            "ports": [{"name": "http", "port": service.port, "targetPort": "http", "protocol": "TCP"}],
        },
    }


def _selector(context: ChildContext) -> dict[str, str]:
    """The frontends of the revision that serves; of both revisions while they share the traffic.

    Those that an operator before revisions has created have no revision label. Until they are replaced, all frontends
    are selected, and no other revision is started.
    """
    serving = StageKey(StageName.FRONTEND, context.rollout.serving.name)
    observation = context.observation
    rollout = context.rollout
    is_before_revisions = not rollout.has_step and has_unlabelled_frontends(observation)
    if rollout.is_shared or (not selects_revision(observation) and is_before_revisions):
        return context.identity.stage_selector(StageName.FRONTEND)
    return context.identity.revision_selector(serving)


def _network_policies(context: ChildContext) -> Iterator[dict[str, Any]]:
    """One policy for all pods, and one for the frontends. A pod accepts what any of its policies allows."""
    identity = context.identity
    if context.spec.network_policy.mode is not Management.MANAGED:
        return
    own_pods, frontend = {DEPLOYMENT_LABEL: identity.name}, StageName.FRONTEND
    yield _policy(
        identity.metadata(identity.policy_name),
        pods=own_pods,
        ingress=[
            # All ports: Dynamo and UCX use ports that the kernel chooses.
            {"from": [{"podSelector": {"matchLabels": own_pods}}]},
            # All pods of the cluster: these ports serve only metrics, and accept no commands.
            {"from": [{"namespaceSelector": {}}], "ports": [_tcp(port) for port in metrics_ports(context.stages)]},
        ],
    )
    yield _policy(
        identity.metadata(identity.stage_name(frontend), labels=identity.labels(frontend)),
        pods=identity.stage_selector(frontend),
        ingress=[{"ports": [_tcp(HTTP_PORT)]}],
    )


def metrics_ports(stages: Iterable[StagePlan]) -> list[int]:
    """Ports of the metrics of Dynamo and NIXL of all processes.

    Single ports instead of ranges, because not every network plugin supports ranges.
    """
    slots = {
        port["containerPort"] - SYSTEM_PORT
        for stage in stages
        for container in stage.pod_template["spec"]["containers"]
        for port in container.get("ports", ())
        if port["name"].startswith(SYSTEM_PORT_NAME)
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
    drift=DriftRules(
        exact_fields=frozenset({"selector"}),
        closed_lists=frozenset({"ports"}),
        # They add addresses that the plan does not have, or pods that are not ready.
        closed_fields=frozenset({"externalIPs", "publishNotReadyAddresses"}),
    ),
    # No right to delete, because the operator never deletes it: it exists in every topology.
    verbs=("get", "list", "watch", "create", "patch"),
    optional=True,
)

NETWORK_POLICIES = ChildKind(
    kind=NETWORK_POLICY,
    build=_network_policies,
    purpose="limits which clients can connect to the pods",
    absence="all pods of the cluster can connect to the pods",
    drift=DriftRules(exact_fields=frozenset({"ingress", "podSelector"}), closed_fields=frozenset({"egress"})),
    optional=True,
)
