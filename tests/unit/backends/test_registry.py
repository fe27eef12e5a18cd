"""The registry of backends."""

from __future__ import annotations

from epd_operator.backends import dynamo
from epd_operator.backends.registry import (
    ALLOWED_VARIABLES,
    BACKENDS,
    OWNED_FLAGS,
    OWNED_VARIABLE_PREFIXES,
    OWNED_VARIABLES,
    Framework,
)


def test_every_framework_has_a_backend() -> None:
    assert set(BACKENDS) == set(Framework)


def test_owned_flags_are_those_of_dynamo_and_of_every_backend() -> None:
    for backend in BACKENDS.values():
        assert set(backend.owned_flags) <= set(OWNED_FLAGS)
    assert {*dynamo.FRONTEND_FLAGS, *dynamo.RUNTIME_FLAGS} <= set(OWNED_FLAGS)
    assert all(flag.startswith("-") for flag in OWNED_FLAGS)


def test_owned_variables_are_those_of_dynamo_and_of_every_backend() -> None:
    for backend in BACKENDS.values():
        assert set(backend.owned_variable_prefixes) <= set(OWNED_VARIABLE_PREFIXES)
        assert set(backend.owned_variables) <= set(OWNED_VARIABLES)
    assert set(dynamo.OWNED_VARIABLE_PREFIXES) <= set(OWNED_VARIABLE_PREFIXES)
    assert set(dynamo.OWNED_VARIABLES) <= set(OWNED_VARIABLES)


def test_an_owned_prefix_is_never_empty() -> None:
    assert all(OWNED_VARIABLE_PREFIXES)


def test_no_allowed_variable_is_owned_by_its_full_name() -> None:
    assert set(ALLOWED_VARIABLES).isdisjoint(OWNED_VARIABLES)
