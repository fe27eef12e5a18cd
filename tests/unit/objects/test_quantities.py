"""Amounts of memory and CPU, as Kubernetes writes them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.quantities import parse, same, to_bytes

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
NUMBERS = st.integers(0, 10**6).map(str) | st.decimals(0, 10**4, places=3).map(str)
QUANTITIES = st.builds("{}{}".format, NUMBERS, st.sampled_from(SUFFIXES[4:]))


@pytest.mark.parametrize(("text", "value"), [("4Gi", 4 * 1024**3), ("1.5G", 1_500_000_000), ("7", 7)])
def test_memory_is_read_in_bytes(text: str, value: int) -> None:
    assert to_bytes(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "4 Gi", "-1", "4gb", "1e3", ".5", "5.", "4Gi\n", "\u0664Gi", "\uff11Gi"])
def test_an_invalid_quantity_is_refused(text: str) -> None:
    assert parse(text) is None
    with pytest.raises(ValueError, match="not a quantity"):
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
    assert same(text, text)
    assert same(text, f"{(value * 1000).to_integral_value()}m")
    assert not same(text, f"{(value + Decimal('0.001')) * 1000:.0f}m")


@given(st.text(), QUANTITIES)
def test_a_text_that_is_not_a_quantity_equals_no_quantity(text: str, quantity: str) -> None:
    if parse(text) is None:
        assert not same(text, quantity)
        assert not same(quantity, text)
        assert not same(text, text)


@pytest.mark.xfail(raises=InvalidOperation, strict=True, reason="more digits than the precision of decimal")
def test_numbers_of_any_length_can_be_compared() -> None:
    assert not same("1" * 30, "2" * 30)
