"""Kubernetes quantities: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Context, Decimal

_MILLI = Decimal("0.001")
_UNITS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": _MILLI,
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(
    r"((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|)|[eE]([+-]?[0-9]{1,3}))"
)
_EXACT = Context(prec=400)
"""Enough digits for every text of a quantity that the API accepts."""
_MAX = Decimal(2**63 - 1)
"""The API server stores larger quantities as this one: https://pkg.go.dev/k8s.io/apimachinery/pkg/api/resource."""


def parse(quantity: str) -> Decimal | None:
    """The value in base units (bytes, cores), or None if the text is not a quantity."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        return None
    number = Decimal(match[1])
    return number.scaleb(int(match[3]), _EXACT) if match[3] else _EXACT.multiply(number, _UNITS[match[2]])


def to_bytes(quantity: str) -> int:
    """Whole bytes of an amount of memory.

    Raises:
        ValueError: the text is not a quantity.
    """
    value = parse(quantity)
    if value is None:
        raise ValueError(f"{quantity!r} is not a valid quantity: write it as in 4Gi")
    return int(value)


def are_equal(one: str, other: str) -> bool:
    """Whether two quantities are equal at the API server.

    The API server writes quantities in canonical form (1024Mi becomes 1Gi), rounds resources up to thousandths, and
    limits them to 2^63-1.
    """
    value, another = parse(one), parse(other)
    if value is None or another is None:
        return False
    return _stored(value) == _stored(another)


def _stored(value: Decimal) -> Decimal:
    return min(value, _MAX).quantize(_MILLI, rounding=ROUND_CEILING, context=_EXACT)
