"""The base class of all API types, and types that they share."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from epd_operator.api.markers import Bool, Quantity, Rule, is_quantity

DnsLabel = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")]
QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
"""Keys of labels, annotations and taints: a name with an optional DNS domain as its prefix."""

QualifiedName = Annotated[str, Field(min_length=1, max_length=317, pattern=QUALIFIED_NAME)]
ExtendedResource = Annotated[
    QualifiedName,
    Rule(
        expression="self.contains('/')",
        message="the name of an extended resource needs a domain, such as nvidia.com/gpu or rdma/ib: add the domain",
    ),
]

_HOST_PART = "[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?"
_REGISTRY = f"({_HOST_PART}([.]{_HOST_PART})*|[[][0-9a-fA-F:]+[]])(:[0-9]+)?"
_PATH_PART = "[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*"
_DIGEST = "@(sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128})"
IMAGE_NAME = f"^({_REGISTRY}/)?{_PATH_PART}(/{_PATH_PART})*(:[a-zA-Z0-9_][-a-zA-Z0-9_.]{{0,127}})?({_DIGEST})?$"
"""Names of images as container runtimes read them: https://pkg.go.dev/github.com/distribution/reference.

A rule and not a pattern of the type, so that objects that were stored before the rule can be read.
"""

_NO_IMAGE_NAME = "not a valid image name: "
Image = Annotated[
    str,
    Field(min_length=1, max_length=1024, pattern=r"^[^\t\n\f\r ]+$"),
    Rule(
        expression=f"self.matches('{IMAGE_NAME}')",
        message=f"{_NO_IMAGE_NAME}write REGISTRY/REPOSITORY:TAG, with the repository in lower case",
        message_expression=f"'{_NO_IMAGE_NAME}' + (self.contains('://') ? 'remove ' + self.split('://')[0] + '://' "
        f": self.contains('@') && !self.matches('{_DIGEST}$') "
        "? 'write the digest as sha256: and 64 digits of 0-9 and a-f, or remove it with its @' "
        ": self.endsWith(':') ? 'write a tag after the last colon, or remove the colon' "
        ": 'write REGISTRY/REPOSITORY:TAG, with the repository in lower case')",
    ),
]

Memory = Annotated[
    Quantity,
    Rule(
        expression=f"!{is_quantity()} || quantity(self).compareTo(quantity('1Mi')) >= 0",
        message="must be at least 1Mi: set for example 16Gi (a number without a unit is in bytes, and m means "
        "1/1000 byte)",
    ),
]


class ApiModel(BaseModel):
    """Base class of all API types. Fields are camelCase in JSON. Unknown fields are ignored, as by the API server."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="ignore")
    rules: ClassVar[tuple[Rule, ...]] = ()


def qualified_keys(field: str) -> Rule:
    """The rule that keys of a map are valid keys of labels or annotations. A schema cannot restrict keys of maps."""
    return Rule(
        expression=f"!has(self.{field}) || self.{field}.all(k, k.matches('{QUALIFIED_NAME}'))",
        message="invalid key: use a name such as tier or example.com/tier, with letters, digits, '-', '_' and '.', "
        "at most 63 characters, after an optional DNS domain and '/'",
        field_path=f".{field}",
    )


class LocalObjectReference(ApiModel):
    """The name of an object in the same namespace."""

    name: ObjectName = Field(description="Name of the object, in the namespace of the EPDDeployment.")


class KeySelector(ApiModel):
    """One key of a Secret or ConfigMap in the same namespace."""

    name: ObjectName = Field(description="Name of the Secret or ConfigMap.")
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._A-Za-z0-9]+$")] = Field(
        description="Key in the Secret or ConfigMap."
    )
    optional: Bool | None = Field(default=None, description="Start the pod even if the object or the key is missing.")
