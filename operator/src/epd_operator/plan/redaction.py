"""In status, Events and logs, redacts literal values of the spec that may be secret.

Credentials belong in Secrets, which the operator never reads. But the API accepts literal values too, and other
programs quote them: processes in their termination messages, the API server and webhooks in refusals. A user who can
read Events, logs or the status may have no right to read the spec.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epd_operator.plan.observation import Observation

SECRET_NAME = re.compile(r"(?i)token|key|secret|passw|credential|auth")
"""Names of variables and arguments whose values are probably secret."""
MIN_SECRET_LENGTH = 4
"""Shorter values are not redacted, even if the name matches."""
MIN_LENGTH = 12
"""Shorter values of other names are not redacted: without every ``1`` and ``debug``, messages would be unreadable."""


@dataclass(frozen=True)
class Redactor:
    """Replaces values by their names.

    Attributes:
        values: pairs of value and name, longest value first.
    """

    values: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, spec: Any) -> Redactor:
        """The redactor for a raw spec: all literal values of variables, and arguments with the name of a secret."""
        found = {form: name for name, value in _literals(spec) for form in _forms(name, value)}
        return cls(tuple(sorted(found.items(), key=lambda item: (-len(item[0]), item))))

    def redact(self, text: str) -> str:
        """The text with each value replaced by its name."""
        for value, name in self.values:
            if value in text:
                text = text.replace(value, f"[value of {name}]")
        return text

    def redact_observation(self, observation: Observation) -> Observation:
        """The observation with redacted messages: Events and answers of pods, statuses of pods and children."""
        if not self.values:
            return observation
        return replace(
            observation,
            verdict=observation.verdict
            and replace(observation.verdict, message=self.redact(observation.verdict.message)),
            findings=observation.findings
            and replace(
                observation.findings,
                wrong={pod: self.redact(fault) for pod, fault in observation.findings.wrong.items()},
                doubtful=self.redact(observation.findings.doubtful),
            ),
            pod_events=tuple(replace(event, message=self.redact(event.message)) for event in observation.pod_events),
            pods=tuple({**pod, "status": self._redact_messages(pod.get("status", {}))} for pod in observation.pods),
            children={
                key: {**child, "status": self._redact_messages(child["status"])} if "status" in child else child
                for key, child in observation.children.items()
            },
        )

    def _redact_messages(self, status: Any) -> Any:
        if isinstance(status, Mapping):
            return {
                key: self.redact(value)
                if key in ("message", "reason") and isinstance(value, str)
                else self._redact_messages(value)
                for key, value in status.items()
            }
        return [self._redact_messages(item) for item in status] if isinstance(status, list) else status


def _literals(node: Any) -> Iterator[tuple[str, str]]:
    """Names and values of variables and of arguments, at any place in the spec, whether it is valid or not."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == "env" and isinstance(value, list):
                yield from _variables(value)
            elif key == "args" and isinstance(value, list):
                yield from _secret_arguments(value)
            else:
                yield from _literals(value)
    elif isinstance(node, list):
        for item in node:
            yield from _literals(item)


def _variables(variables: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for variable in variables:
        if isinstance(variable, Mapping) and isinstance(variable.get("value"), str):
            yield str(variable.get("name")), variable["value"]


def _secret_arguments(arguments: Sequence[Any]) -> Iterator[tuple[str, str]]:
    for argument, following in zip(arguments, [*arguments, ""][1:], strict=True):
        name, separator, value = str(argument).partition("=")
        if name.startswith("-") and SECRET_NAME.search(name):
            yield name, value if separator else str(following)


def _forms(name: str, value: str) -> Iterator[str]:
    """The forms in which a program may quote the value: whole, escaped, or one line of it."""
    shortest = MIN_SECRET_LENGTH if SECRET_NAME.search(name) else MIN_LENGTH
    for text in (value, *value.splitlines()):
        for form in (text, text.strip(), json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]):
            if len(form) >= shortest:
                yield form
