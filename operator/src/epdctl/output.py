"""Output of results: text for people in at most 80 columns, JSON or YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import typer
import yaml
from rich.cells import cell_len, set_cell_size


class Format(StrEnum):
    """Values of ``--output``."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


WIDTH = 80


def as_data(data: Any, *, form: Format) -> str:
    """JSON or YAML."""
    if form is Format.JSON:
        return json.dumps(data, indent=2, ensure_ascii=False)
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True)).rstrip("\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as kubectl prints them. The first column is cut if a line would be longer than `WIDTH`."""
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(header))]
    widths[0] = max(min(widths[0], WIDTH - sum(width + 3 for width in widths[1:])), 1)
    return "\n".join(
        "   ".join(set_cell_size(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def printable(text: str) -> str:
    """The text on one line, without characters that control a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def bar(parts: Mapping[str, float], *, width: int) -> str:
    """A bar in which each part has its share, with the first letter of its name; the parts add up to 100."""
    edges, sum_so_far = [0], 0.0
    for value in parts.values():
        sum_so_far += value
        edges.append(round(sum_so_far / 100 * width))
    letters = [name[0].upper() for name in parts]
    return "".join(letter * (edges[n + 1] - edges[n]) for n, letter in enumerate(letters))


def fail(error: Exception, *, code: int = 2) -> typer.Exit:
    """Print the error; the exit that ends the program."""
    for line in str(error).splitlines():
        typer.echo(f"error: {printable(line)}", err=True)
    return typer.Exit(code=code)
