"""The pip settings of the machine, for use in a build without storing them in the image."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

CERTIFICATES = "/run/epd-build/certificates.pem"
# Variables with the path of trusted certificates, in the order in which pip's HTTP library reads them.
CERTIFICATE_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
# Settings with paths of the machine that do not exist in a container.
IGNORED = frozenset({"cache-dir", "log", "prefix", "root", "target", "user", "python", "src", "build", "report"})


@dataclass(frozen=True)
class PipSettings:
    """A pip.conf, and the mounts that it needs."""

    text: str
    volumes: tuple[tuple[str, str], ...]  # path on the machine, path in the build


def pip_settings(
    listed: str, *, environ: Mapping[str, str] = os.environ, exists: Callable[[str], bool] = os.path.exists
) -> PipSettings:
    """Convert the output of ``pip config list`` into a configuration for use in a build.

    Args:
        listed: lines such as ``global.timeout='60'``; the section ``:env:`` has environment variables.
        environ: variables that may have the path of certificates.
        exists: whether a path exists.
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
    """Return the folders of wheels in the settings; they are mounted at the same path."""
    names = [name for section in values.values() for name in section.get("find-links", "").split()]
    return [(name, name) for name in names if name.startswith("/") and exists(name)]


def _render(values: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for section, settings in sorted(values.items()):
        lines.append(f"[{section}]")
        for name, value in sorted(settings.items()):
            lines.append(f"{name} = " + "\n    ".join(value.split("\n")).lstrip())
    return "\n".join(lines) + "\n"
