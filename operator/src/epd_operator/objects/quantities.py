"""Kubernetes quantities: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal

_MILLI = Decimal("0.001")
_UNITS = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": _MILLI,
    "": Decimal(1),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|)")


def parse(quantity: str) -> Decimal | None:
    """The value in base units (bytes, cores), or None if the text is not a plain decimal quantity."""
    match = _QUANTITY.fullmatch(quantity)
    return Decimal(match[1]) * _UNITS[match[2]] if match else None


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

    The API server writes quantities in canonical form (1024Mi becomes 1Gi) and rounds resources up to thousandths.
    """
    value, another = parse(one), parse(other)
    if value is None or another is None:
        return False
    return value.quantize(_MILLI, rounding=ROUND_CEILING) == another.quantize(_MILLI, rounding=ROUND_CEILING)
