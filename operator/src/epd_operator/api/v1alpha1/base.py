"""The base of all API types, and the scalars and references that they share."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from epd_operator.api.markers import Bool, Quantity, Rule

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]
QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
"""Keys of labels, annotations and taints: a name, and a DNS domain before it where it is not the user's own."""

QualifiedName = Annotated[str, Field(min_length=1, max_length=317, pattern=QUALIFIED_NAME)]
ExtendedResource = Annotated[
    QualifiedName,
    Rule(
        expression="self.contains('/')",
        message="an extended resource has a domain, such as nvidia.com/gpu or rdma/ib: write it in full",
    ),
]
Argument = Annotated[str, Field(max_length=4096)]
Image = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\t\n\f\r ]+$")]

Memory = Annotated[
    Quantity,
    Rule(
        expression="quantity(self).compareTo(quantity('1Mi')) >= 0",
        message="less than 1Mi of memory: write for example 16Gi (a plain number counts bytes, m thousandths of one)",
    ),
]


class ApiModel(BaseModel):
    """Base of all API types: camelCase on the wire, immutable, unknown fields ignored as the API server prunes them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")
    rules: ClassVar[tuple[Rule, ...]] = ()


def qualified_keys(field: str) -> Rule:
    """The rule that keys of a map are fit for labels and annotations; a schema has no say about keys."""
    return Rule(
        expression=f"!has(self.{field}) || self.{field}.all(k, k.matches('{QUALIFIED_NAME}'))",
        message="a key is not a name such as tier or example.com/tier: letters, digits, '-', '_' and '.', at most 63, "
        "after an optional DNS domain and '/'",
        field_path=f".{field}",
    )


class LocalObjectReference(ApiModel):
    """The name of an object in the same namespace."""

    name: ObjectName = Field(description="Name of the object, in the namespace of the EPDDeployment.")


class KeySelector(ApiModel):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret or ConfigMap.")
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._A-Za-z0-9]+$")] = Field(
        description="Key inside it."
    )
    optional: Bool | None = Field(default=None, description="Start the pod even if the object or the key is missing.")
