"""Compares the schemas of the kinds of this API, as the API server serves them, with the models of this operator.

The schemas are read from the OpenAPI document of the API group, not from the CRDs: Kubernetes lets every authenticated
client read it (ClusterRole system:discovery), so the operator needs no right on CRDs, which are cluster-scoped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from epd_operator.api.missing_fields import missing_fields
from epd_operator.api.untyped import items, mapping
from epd_operator.api.v1alpha1.epddeployment import EPDDeployment
from epd_operator.api.v1alpha1.epdstagescale import EPDStageScale
from epd_operator.cluster.client import Cluster
from epd_operator.objects.kinds import EPD_DEPLOYMENT, STAGE_SCALE, Kind

MODELS: Mapping[Kind, type[BaseModel]] = {EPD_DEPLOYMENT: EPDDeployment, STAGE_SCALE: EPDStageScale}


async def missing_in_crds(cluster: Cluster) -> dict[str, list[str]]:
    """The fields that each CRD lacks, by the name of the CRD. CRDs whose schema is not served are left out.

    Raises:
        ClusterError: the document could not be read.
    """
    document = await cluster.read(EPD_DEPLOYMENT, path=f"/openapi/v3/apis/{EPD_DEPLOYMENT.api_version}")
    schemas = items(list(mapping(mapping(document.get("components")).get("schemas")).values()))
    missing = {}
    for kind, model in MODELS.items():
        schema = next((found for found in schemas if _is_of_kind(found, kind)), None)
        if schema is not None:
            group, _, _ = kind.api_version.partition("/")
            missing[f"{kind.plural}.{group}"] = list(missing_fields(model, schema))
    return missing


def _is_of_kind(schema: Mapping[str, Any], kind: Kind) -> bool:
    group, _, version = kind.api_version.partition("/")
    kinds = schema.get("x-kubernetes-group-version-kind")
    return isinstance(kinds, list) and {"group": group, "version": version, "kind": kind.kind} in kinds
