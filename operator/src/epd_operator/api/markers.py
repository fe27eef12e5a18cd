"""What a pydantic annotation cannot say about a Kubernetes schema.

The markers are placed in ``Annotated[...]`` (fields) or in a model's ``rules`` (whole objects). Validation by
pydantic ignores them; the CRD compiler reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A CEL validation rule (``x-kubernetes-validations``).

    Attributes:
        expression: CEL over ``self``; true means valid.
        message: what is wrong and the way out, for the person who applied the object.
        field_path: the child that the API server names in its error, such as ``.encoder``.
    """

    expression: str
    message: str
    field_path: str | None = None


@dataclass(frozen=True)
class ListMap:
    """The list is a map keyed by these fields of its items; server-side apply merges item by item."""

    keys: tuple[str, ...]


@dataclass(frozen=True)
class ListSet:
    """The list is a set of scalars."""


@dataclass(frozen=True)
class PreserveUnknown:
    """A part of another Kubernetes API, passed on as it is and validated by the API server with the child."""


@dataclass(frozen=True)
class IntOrString:
    """The value may be written as an integer or as a string."""


QUANTITY_PATTERN = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
"""Non-negative Kubernetes quantities in plain notation."""

Quantity = Annotated[
    str,
    Field(max_length=32, pattern=QUANTITY_PATTERN),
]
"""An amount such as ``16Gi``; always written as a string."""

KubernetesObject = Annotated[dict[str, Any], PreserveUnknown()]
