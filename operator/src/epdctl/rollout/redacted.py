"""Specs without values that may be secret, as the operator's messages hide them: see `epd_operator.plan.redaction`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epd_operator.plan.redaction import SECRET_NAME

HIDDEN = "[not shown]"


def redacted(node: Any) -> Any:
    """A copy without literal values of variables and values of arguments with the name of a secret, at any place."""
    if isinstance(node, Mapping):
        return {key: _redacted_field(key, value) for key, value in node.items()}
    return [redacted(item) for item in node] if isinstance(node, list) else node


def _redacted_field(key: str, value: Any) -> Any:
    if key == "env" and isinstance(value, list):
        return [_variable(item) for item in value]
    if key == "args" and isinstance(value, list):
        return _arguments(value)
    return redacted(value)


def _variable(variable: Any) -> Any:
    is_literal = isinstance(variable, Mapping) and "value" in variable
    return {**variable, "value": HIDDEN} if is_literal else redacted(variable)


def _arguments(arguments: list[Any]) -> list[Any]:
    shown, is_value = [], False
    for argument in arguments:
        name, separator, _ = str(argument).partition("=")
        is_secret = name.startswith("-") and SECRET_NAME.search(name) is not None
        if is_secret and separator:
            shown.append(f"{name}={HIDDEN}")
        else:
            shown.append(HIDDEN if is_value and not name.startswith("-") else argument)
        is_value = is_secret and not separator
    return shown
