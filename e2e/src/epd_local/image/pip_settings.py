"""The machine's way to Python packages, carried into a build without a trace in the image. Pure but for paths."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

CERTIFICATES = "/run/epd-build/certificates.pem"
# Where programs are told of the certificates to trust, in the order in which pip's own HTTP library looks.
CERTIFICATE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
# What names places of the machine that have no meaning in a container.
IGNORED = frozenset({"cache-dir", "log", "prefix", "root", "target", "user", "python", "src", "build", "report"})


@dataclass(frozen=True)
class PipSettings:
    """A pip.conf, and what must be mounted for it to hold."""

    text: str
    volumes: tuple[tuple[str, str], ...]  # path on the machine, path in the build


def pip_settings(
    listed: str, *, environ: Mapping[str, str] = os.environ, exists: Callable[[str], bool] = os.path.exists
) -> PipSettings:
    """Turn what ``pip config list`` prints into a configuration for use in a build.

    Args:
        listed: lines such as ``global.timeout='60'``; the section ``:env:`` stands for environment variables.
        environ: variables that may name certificates.
        exists: whether a path is there.
    """
    values: dict[str, dict[str, str]] = {}
    for line in listed.splitlines():
        key, _, literal = line.partition("=")
        section, _, name = key.rpartition(".")
        if name and name not in IGNORED:
            in_file = "global" if section == ":env:" else section
            values.setdefault(in_file, {})[name] = str(ast.literal_eval(literal))
    volumes = dict(_local_folders(values, exists))
    certificates = _certificates(values, environ, exists)
    for settings in values.values():
        settings.pop("cert", None)
    if certificates:
        values.setdefault("global", {})["cert"] = CERTIFICATES
        volumes[certificates] = CERTIFICATES
    return PipSettings(text=_render(values), volumes=tuple(sorted(volumes.items())))


def _certificates(
    values: Mapping[str, Mapping[str, str]], environ: Mapping[str, str], exists: Callable[[str], bool]
) -> str:
    configured = [section["cert"] for section in values.values() if "cert" in section]
    named = [environ[name] for name in CERTIFICATE_VARIABLES if environ.get(name)]
    found = next((path for path in (*configured, *named) if exists(path)), "")
    return str(Path(found).resolve()) if found else ""


def _local_folders(values: Mapping[str, Mapping[str, str]], exists: Callable[[str], bool]) -> list[tuple[str, str]]:
    """Return the folders of wheels that settings name; they are shown at their own places."""
    names = [name for section in values.values() for name in section.get("find-links", "").split()]
    return [(name, name) for name in names if name.startswith("/") and exists(name)]


def _render(values: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for section, settings in sorted(values.items()):
        lines.append(f"[{section}]")
        for name, value in sorted(settings.items()):
            lines.append(f"{name} = " + "\n    ".join(value.split("\n")).lstrip())
    return "\n".join(lines) + "\n"
