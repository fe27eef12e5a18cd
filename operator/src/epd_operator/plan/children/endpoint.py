"""The Service in front of the frontend pods."""

from __future__ import annotations

from typing import Any

from epd_operator.api.v1alpha1.deployment import EPDDeploymentSpec
from epd_operator.plan.identity import Identity, StageName


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
