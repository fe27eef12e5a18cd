"""The processes that a launcher runs, and the parser of EPD_GROUP, their JSON form."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

MAX_PROCESSES = 32
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class SpecError(ValueError):
    """The specification is invalid; the message has the field and the expected value."""


class Role(StrEnum):
    """What a process does. Decides which metrics show its requests in flight, and its place in the drain order."""

    FRONTEND = "frontend"
    ENCODER = "encoder"
    PD = "pd"
    WORKER = "worker"


@dataclass(frozen=True)
class ProcessSpec:
    """One process to run.

    Attributes:
        models_url: list of models that must contain a model before the process is ready for the first time.
        metrics_port: port where other pods can read the page at metrics_url; None: they cannot.
        environment: variables in addition to those of the launcher.
    """

    name: str
    role: Role
    command: tuple[str, ...]
    health_url: str
    metrics_url: str
    models_url: str | None = None
    metrics_port: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LaunchSpec:
    """The specification of one launcher. Times are seconds; a `hang_timeout` of 0 means none."""

    processes: tuple[ProcessSpec, ...]
    group: bool = False
    cuda_mps: bool = False
    mps_directory: str = "/tmp/epd-mps"  # noqa: S108 - no other user in the container
    control_port: int = 9400
    drain_timeout: float = 120.0
    settle: float = 6.0
    stop_timeout: float = 25.0
    hang_timeout: float = 300.0
    termination_log: str = "/dev/termination-log"


def check_name(path: str, value: object) -> str:
    """Return a valid process name: it is used in the URL of the probe, as log prefix and as container name."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise SpecError(f"{path}: must be a DNS label (lower-case letters, digits and '-'), got {value!r}")
    return value


def check_role(path: str, value: object) -> Role:
    """Return the role named by `value`."""
    try:
        return Role(value)  # type: ignore[arg-type]  # any object may come from JSON; others raise ValueError
    except ValueError:
        raise SpecError(f"{path}: must be one of {', '.join(Role)}, got {value!r}") from None


def check_url(path: str, value: object) -> str:
    """Return an http URL with a host; connections within a pod need no TLS."""
    if not isinstance(value, str):
        raise SpecError(f"{path}: must be an http:// URL, got {value!r}")
    try:
        parts = urlsplit(value)
        usable = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isascii() or any(character <= " " for character in value):
        raise SpecError(f"{path}: must be an http:// URL such as http://127.0.0.1:9190/health, got {value!r}")
    return value


def check_command(path: str, value: object) -> tuple[str, ...]:
    """Return a command line: at least the program, all strings without NUL."""
    if not isinstance(value, list | tuple) or not value:
        raise SpecError(f"{path}: must be a non-empty list of strings, the program first")
    for index, word in enumerate(value):
        if not isinstance(word, str) or "\0" in word:
            raise SpecError(f"{path}[{index}]: must be a string, got {word!r}")
    if not value[0]:
        raise SpecError(f"{path}[0]: the program's name must not be empty")
    return tuple(value)


def _check_port(path: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65535:
        raise SpecError(f"{path}: must be a port from 1 to 65535, got {value!r}")
    return value


def _check_environment(path: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise SpecError(f"{path}: must be an object of strings")
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            raise SpecError(f"{path}: {name!r} is not a valid variable name")
        if not isinstance(text, str) or "\0" in text:
            raise SpecError(f"{path}.{name}: must be a string, got {text!r}")
    return dict(value)


def _check_keys(path: str, value: object, *, required: frozenset[str], optional: frozenset[str]) -> dict[str, object]:
    where = path or "EPD_GROUP"
    if not isinstance(value, dict):
        raise SpecError(f"{where}: must be an object, got {type(value).__name__}")
    prefix = f"{path}." if path else ""
    for key in sorted(required - value.keys()):
        raise SpecError(f"{prefix}{key}: is required")
    for key in sorted(value.keys() - required - optional):
        raise SpecError(f"{prefix}{key}: unknown field; known fields: {', '.join(sorted(required | optional))}")
    return value


def _parse_process(path: str, value: object) -> ProcessSpec:
    fields = _check_keys(
        path,
        value,
        required=frozenset({"name", "role", "command", "healthUrl", "metricsUrl"}),
        optional=frozenset({"env", "metricsPort"}),
    )
    return ProcessSpec(
        name=check_name(f"{path}.name", fields["name"]),
        role=check_role(f"{path}.role", fields["role"]),
        command=check_command(f"{path}.command", fields["command"]),
        health_url=check_url(f"{path}.healthUrl", fields["healthUrl"]),
        metrics_url=check_url(f"{path}.metricsUrl", fields["metricsUrl"]),
        metrics_port=_check_port(f"{path}.metricsPort", fields["metricsPort"]) if "metricsPort" in fields else None,
        environment=_check_environment(f"{path}.env", fields.get("env", {})),
    )


@dataclass(frozen=True)
class GroupSpec:
    """The content of EPD_GROUP: processes in start order, and whether they share the GPU through CUDA MPS."""

    processes: tuple[ProcessSpec, ...]
    cuda_mps: bool


def _check_unique(field_name: str, values: Sequence[str | int | None]) -> None:
    seen: dict[str | int, int] = {}
    for index, value in enumerate(values):
        if value in seen:
            raise SpecError(f"processes[{index}].{field_name}: {value!r} is already used by processes[{seen[value]}]")
        if value is not None:
            seen[value] = index


def parse_group(text: str) -> GroupSpec:
    """Parse EPD_GROUP; raise SpecError with the path of the first invalid field."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"EPD_GROUP: is not valid JSON: {error}") from None
    fields = _check_keys("", document, required=frozenset({"processes"}), optional=frozenset({"cudaMps"}))
    listed, cuda_mps = fields["processes"], fields.get("cudaMps", False)
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_PROCESSES:
        raise SpecError(f"processes: must be a list of 1 to {MAX_PROCESSES} processes")
    if not isinstance(cuda_mps, bool):
        raise SpecError(f"cudaMps: must be true or false, got {cuda_mps!r}")
    processes = tuple(_parse_process(f"processes[{index}]", value) for index, value in enumerate(listed))
    _check_unique("name", [process.name for process in processes])
    _check_unique("metricsPort", [process.metrics_port for process in processes])
    return GroupSpec(processes=processes, cuda_mps=cuda_mps)
