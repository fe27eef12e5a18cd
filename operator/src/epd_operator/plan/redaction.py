"""Keeps literal values of a spec that may be secret out of status, Events and logs.

Credentials belong into Secrets, which the operator never reads. But the API takes literal values too, and others repeat
them: processes in their last words, API server and webhooks in refusals. Who reads Events, logs or status need not be
among those who may read the spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epd_operator.plan.observation import Observation

TELLING = re.compile(r"(?i)token|key|secret|passw|credential|auth")
"""Names of variables and arguments whose values are hidden however short they are."""
MIN_LENGTH = 12
"""Shorter values of other variables stay: hiding every ``1`` and ``debug`` would make messages unreadable."""
MIN_TELLING_LENGTH = 4


@dataclass(frozen=True)
class Redactor:
    """What must not be repeated: pairs of text and name, longest text first."""

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, spec: Any) -> Redactor:
        """Literal values of variables, and arguments whose name tells of a secret, anywhere in a raw spec."""
        found = {form: name for name, value in _literals(spec) for form in _forms(name, value)}
        return cls(tuple(sorted(found.items(), key=lambda item: (-len(item[0]), item))))

    def hide(self, text: str) -> str:
        """The text with a name in the place of each value."""
        for value, name in self.values:
            if value in text:
                text = text.replace(value, f"[value of {name}]")
        return text

    def hide_in(self, observation: Observation) -> Observation:
        """The observation with values hidden in what pods and children report."""
        if not self.values:
            return observation
        return replace(
            observation,
            pods=tuple({**pod, "status": self._hide_messages(pod.get("status", {}))} for pod in observation.pods),
            children={
                key: {**child, "status": self._hide_messages(child["status"])} if "status" in child else child
                for key, child in observation.children.items()
            },
        )

    def _hide_messages(self, status: Any) -> Any:
        if isinstance(status, Mapping):
            return {
                key: self.hide(value) if isinstance(value, str) and key in ("message", "reason") else
                self._hide_messages(value)
                for key, value in status.items()
            }  # fmt: skip
        return [self._hide_messages(item) for item in status] if isinstance(status, list) else status


def _literals(node: Any) -> Iterator[tuple[str, str]]:
    """Name and value of variables and telling arguments, however the spec is made."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "env" and isinstance(value, list):
                yield from _of_variables(value)
            elif key == "args" and isinstance(value, list):
                yield from _of_arguments(value)
            else:
                yield from _literals(value)
    elif isinstance(node, list):
        for item in node:
            yield from _literals(item)


def _of_variables(variables: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for variable in variables:
        if isinstance(variable, Mapping) and isinstance(variable.get("value"), str):
            yield str(variable.get("name")), variable["value"]


def _of_arguments(arguments: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, separator, value = str(argument).partition("=")
        if name.startswith("-") and TELLING.search(name):
            yield name, value if separator else str(following)


def _forms(name: str, value: str) -> Iterator[str]:
    """The value as others may repeat it: whole, quoted, or one line of it."""
    shortest = MIN_TELLING_LENGTH if TELLING.search(name) else MIN_LENGTH
    for text in (value, *value.splitlines()):
        for form in (text, text.strip(), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            if len(form) >= shortest:
                yield form
