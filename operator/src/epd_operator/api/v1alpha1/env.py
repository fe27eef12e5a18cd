"""Environment variables, and the rule for variables that are reserved for the operator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from epd_operator.api.markers import ListMap, Rule
from epd_operator.api.v1alpha1.base import ApiModel, KeySelector
from epd_operator.backends.registry import OWNED_VARIABLE_PREFIXES, OWNED_VARIABLES

POD_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
POD_FIELD_MAPS = ("metadata.labels['", "metadata.annotations['")


class FieldSelector(ApiModel):
    """A field of the pod."""

    field_path: Annotated[
        str,
        Field(min_length=1, max_length=256),
        Rule(
            expression=f"self in {list(POD_FIELDS)} || {list(POD_FIELD_MAPS)}.exists(p, self.startsWith(p))",
            message=f"Kubernetes does not support this field here: choose one of {', '.join(POD_FIELDS)}, "
            "metadata.labels['KEY'] and metadata.annotations['KEY']",
        ),
    ] = Field(description="Path of the field, such as status.hostIP.")


class EnvVarSource(ApiModel):
    """Source of the value of an environment variable. Set exactly one field."""

    secret_key_ref: KeySelector | None = Field(default=None, description="A key of a Secret.")
    config_map_key_ref: KeySelector | None = Field(default=None, description="A key of a ConfigMap.")
    field_ref: FieldSelector | None = Field(default=None, description="A field of the pod.")

    rules = (
        Rule(
            expression="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)]"
            ".filter(x, x).size() == 1",
            message="set exactly one of secretKeyRef, configMapKeyRef and fieldRef",
        ),
    )


class EnvVar(ApiModel):
    """An environment variable of a container."""

    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="Name of the variable. Variables that the operator sets itself are refused."
    )
    value: Annotated[str, Field(max_length=32768)] | None = Field(default=None, description="A literal value.")
    value_from: EnvVarSource | None = Field(
        default=None, description="Source of the value, instead of a literal value."
    )

    rules = (
        Rule(
            expression="!(has(self.value) && has(self.valueFrom))",
            message="set value or valueFrom, not both",
        ),
        Rule(
            expression=f"!(self.name in {list(OWNED_VARIABLES)} "
            f"|| {list(OWNED_VARIABLE_PREFIXES)}.exists(p, self.name.startsWith(p)))",
            message="this variable is reserved for the operator (identity, discovery, ports, transfer or folders of "
            "the pod): remove it. Where there is a field of spec for it, such as transfer.ucx, set the field",
            field_path=".name",
        ),
    )


EnvList = Annotated[list[EnvVar], Field(max_length=64), ListMap(("name",))]
