"""Amounts of memory and CPU, as Kubernetes writes them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.quantities import are_equal, parse, to_bytes

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
NUMBERS = st.integers(0, 10**6).map(str) | st.decimals(0, 10**4, places=3).map(str)
QUANTITIES = st.builds("{}{}".format, NUMBERS, st.sampled_from(SUFFIXES[4:]))


@pytest.mark.parametrize(("text", "value"), [("4Gi", 4 * 1024**3), ("1.5G", 1_500_000_000), ("7", 7)])
def test_memory_is_read_in_bytes(text: str, value: int) -> None:
    assert to_bytes(text) == value


@pytest.mark.parametrize(
    "text", ["", "Gi", "4 Gi", "-1", "4gb", "e3", ".", "1e", "1e3Gi", "4Gi\n", "\u0664Gi", "\uff11Gi"]
)
def test_an_invalid_quantity_is_refused(text: str) -> None:
    assert parse(text) is None
    with pytest.raises(ValueError, match="not a valid quantity"):
        to_bytes(text)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_suffix_of_kubernetes_is_read(suffix: str) -> None:
    value = parse(f"1{suffix}")
    assert value is not None
    assert value > 0


@given(st.text())
def test_any_text_is_a_positive_quantity_or_none(text: str) -> None:
    value = parse(text)
    assert value is None or value >= 0


@given(QUANTITIES)
def test_a_quantity_equals_itself_in_thousandths(text: str) -> None:
    value = parse(text)
    assert value is not None
    assert are_equal(text, text)
    assert are_equal(text, f"{(value * 1000).to_integral_value()}m")
    larger = f"{(value + Decimal('0.001')) * 1000:.0f}m"
    assert are_equal(text, larger) is (value >= 2**63 - 1)


@given(st.text(), QUANTITIES)
def test_a_text_that_is_not_a_quantity_equals_no_quantity(text: str, quantity: str) -> None:
    if parse(text) is None:
        assert not are_equal(text, quantity)
        assert not are_equal(quantity, text)
        assert not are_equal(text, text)


@pytest.mark.parametrize(
    ("text", "other"), [("1e3", "1k"), (".5", "500m"), ("5.", "5"), ("1E3", "1000"), ("1.5", "1500m"), ("1e-9", "1m")]
)
def test_unusual_forms_equal_the_canonical_ones(text: str, other: str) -> None:
    assert are_equal(text, other)


@pytest.mark.parametrize("text", ["16Ei", "99999999999Ei", "1" * 32, "1e999", "9223372036854775807"])
def test_quantities_beyond_the_largest_of_kubernetes_equal_the_largest(text: str) -> None:
    assert are_equal(text, str(2**63 - 1))
    assert not are_equal(text, "1")
