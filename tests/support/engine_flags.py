"""The flags of the pinned Dynamo and vLLM, from their own parsers: ``make engine-flags`` writes them into a file.

The environment of the workers has 6 GB, so most tests read the file. An end-to-end test compares it with the parsers.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from epd_local import worker_env

FILE = Path(__file__).parents[1] / "unit" / "backends" / "engine_flags.json"
PROGRAM = Path(__file__).with_name("list_engine_flags.py")


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option with all its spellings; `variable` has the same effect."""

    flags: tuple[str, ...]
    variable: str | None


@dataclass(frozen=True, kw_only=True)
class Parser:
    """The options of one parser, and whether it accepts abbreviations of them."""

    name: str
    abbreviations: bool
    options: tuple[Option, ...]

    def accepted_abbreviations(self) -> dict[str, Option]:
        """The abbreviations that argparse accepts, each with the option that it means. Full flags are not included."""
        if not self.abbreviations:
            return {}
        real = _RaisingParser(add_help=False)
        for number, option in enumerate(self.options):
            real.add_argument(*option.flags, dest=str(number), action="store_true")
        full = {flag for option in self.options for flag in option.flags}
        short = {flag[:end] for flag in full for end in range(2, len(flag))} - full - {"--"}
        found = {}
        for word in short:
            with contextlib.suppress(_AmbiguousError):
                values, unknown = real.parse_known_args([word])
                if not unknown:
                    (meant,) = [key for key, value in vars(values).items() if value]
                    found[word] = self.options[int(meant)]
        return found


class _AmbiguousError(Exception):
    """The word abbreviates several options."""


class _RaisingParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _AmbiguousError(message)


def versions() -> dict[str, str]:
    """Versions of the packages that the file is from."""
    return dict(json.loads(FILE.read_text())["versions"])


def parsers() -> list[Parser]:
    """The parsers in the file."""
    return [
        Parser(
            name=name,
            abbreviations=parser["abbreviations"],
            options=tuple(Option(flags=tuple(f.split()), variable=v) for f, v in parser["options"].items()),
        )
        for name, parser in json.loads(FILE.read_text())["parsers"].items()
    ]


def generated() -> str:
    """The content of the file, from the parsers themselves; installs the environment of the workers if necessary."""
    environment = {**os.environ, "PYTHONPATH": str(worker_env.ensure())}
    command = [str(worker_env.base_python()), str(PROGRAM)]
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.dumps(json.loads(answer.stdout.splitlines()[-1]), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(generated())
