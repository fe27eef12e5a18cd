"""The kind EPDStageScale: the scale of one stage, which a HorizontalPodAutoscaler or KEDA can set."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from epd_operator.api.markers import Int, KubernetesObject, PrinterColumn, Rule
from epd_operator.api.v1alpha1.base import ApiModel

SCALE_KIND = "EPDStageScale"
SCALE_PLURAL = "epdstagescales"

SCALE_COLUMNS = (
    PrinterColumn(name="Desired", json_path=".spec.replicas", type="integer", description="Desired replicas."),
    PrinterColumn(name="Current", json_path=".status.replicas", type="integer", description="Replicas that exist."),
    PrinterColumn(name="Age", json_path=".metadata.creationTimestamp", type="date"),
)


class EPDStageScaleSpec(ApiModel):
    """Desired scale."""

    replicas: Annotated[Int, Field(ge=0, le=10000)] = Field(
        default=1, description="Replicas of the stage. The operator sets this field once, when it creates the object."
    )


class EPDStageScaleStatus(ApiModel):
    """Observed state."""

    replicas: Annotated[Int, Field(ge=0, le=2147483647)] | None = Field(default=None, description="Pods of the stage.")
    selector: Annotated[str, Field(max_length=512)] | None = Field(
        default=None, description="Labels of the stage's pods."
    )


class EPDStageScale(ApiModel):
    """The scale of one stage of an EPDDeployment with autoscaling.mode External. Created by the operator."""

    api_version: Literal["epd.dev/v1alpha1"] = "epd.dev/v1alpha1"
    kind: Literal["EPDStageScale"] = "EPDStageScale"
    metadata: Annotated[KubernetesObject, Field(default_factory=dict)]
    spec: EPDStageScaleSpec = Field(default_factory=EPDStageScaleSpec, description="Desired scale.")
    status: EPDStageScaleStatus | None = Field(default=None, description="Observed state.")

    rules: ClassVar[tuple[Rule, ...]] = ()
