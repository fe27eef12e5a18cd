"""The custom resource: spec, status and how kubectl shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from epd_operator.api.markers import KubernetesObject, PrinterColumn, Rule
from epd_operator.api.v1alpha1.base import ApiModel
from epd_operator.api.v1alpha1.deployment import EPDDeploymentSpec
from epd_operator.api.v1alpha1.status import EPDDeploymentStatus

GROUP = "epd.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "EPDDeployment"
PLURAL = "epddeployments"

MAX_NAME_LENGTH = 37
"""Leaves room for '-frontend' and the suffixes of ReplicaSet and pod within 63 characters."""


PRINTER_COLUMNS = (
    PrinterColumn(name="Topology", json_path=".spec.topology", description="Topology asked for."),
    PrinterColumn(
        name="Ready",
        json_path=".status.conditions[?(@.type=='Ready')].status",
        description="Whether all is as asked for.",
    ),
    PrinterColumn(name="Stages", json_path=".status.summary", description="Ready and desired pods per stage."),
    PrinterColumn(name="Endpoint", json_path=".status.endpoint", description="URL inside the cluster."),
    PrinterColumn(name="Age", json_path=".metadata.creationTimestamp", type="date"),
    PrinterColumn(
        name="Reason",
        json_path=".status.conditions[?(@.type=='Ready')].reason",
        priority=1,
        description="Reason of the condition Ready.",
    ),
)


class EPDDeployment(ApiModel):
    """One multimodal model, served by NVIDIA Dynamo with encode, prefill and decode together or apart."""

    api_version: Literal["epd.dev/v1alpha1"] = "epd.dev/v1alpha1"
    kind: Literal["EPDDeployment"] = "EPDDeployment"
    metadata: Annotated[KubernetesObject, Field(default_factory=dict)]
    spec: EPDDeploymentSpec = Field(description="What the user wants.")
    # Written by the server at creation: without an observed generation kstatus takes an object for ready.
    status: EPDDeploymentStatus = Field(default_factory=EPDDeploymentStatus, description="What the operator saw.")

    rules = (
        Rule(
            expression=f"self.metadata.name.size() <= {MAX_NAME_LENGTH}",
            message=f"the name becomes part of pod and Service names: use at most {MAX_NAME_LENGTH} characters",
            field_path=".metadata.name",
        ),
        Rule(
            expression="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            message="the name becomes part of pod and Service names: use lower-case letters, digits and '-', beginning "
            "with a letter",
            field_path=".metadata.name",
        ),
    )
