"""The table of values in the chart's README, from the comments in values.yaml.

``python -m support.chart_readme`` writes it; the test of the chart's README fails when it is not current.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from support.helm import CHART

VALUES = CHART / "values.yaml"
README = CHART / "README.md"
BEGIN, END = "<!-- values: from values.yaml by `make crds` -->", "<!-- end of values -->"


@dataclass(frozen=True, kw_only=True)
class Value:
    """One value that a user may set."""

    path: str
    default: Any
    about: str


def values(text: str) -> list[Value]:
    """Every value of values.yaml: keys of block mappings are sections, everything else is a value.

    Raises:
        ValueError: a value has no comment above it.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    return list(_values(root, lines=text.splitlines(), above=""))


def _values(mapping: yaml.MappingNode, *, lines: Sequence[str], above: str) -> Iterator[Value]:
    for key, node in mapping.value:
        path = f"{above}{key.value}"
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            yield from _values(node, lines=lines, above=f"{path}.")
            continue
        about = _comment(lines, key.start_mark.line)
        if not about:
            raise ValueError(f"values.yaml: {path} has no comment above it")
        yield Value(path=path, default=yaml.safe_load(yaml.serialize(node)), about=about)


def _comment(lines: Sequence[str], line: int) -> str:
    """The comment lines right above a line, as one text."""
    start = line
    while start > 0 and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return " ".join(text.strip().removeprefix("#").strip() for text in lines[start:line])


def table(found: Sequence[Value]) -> str:
    """A Markdown table."""
    rows = [f"| `{value.path}` | `{json.dumps(value.default)}` | {value.about} |" for value in found]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows])


def current(readme: str, *, values_text: str) -> str:
    """The README with the table as values.yaml has it."""
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table(values(values_text))}\n{END}{tail}"


if __name__ == "__main__":
    README.write_text(current(README.read_text(), values_text=VALUES.read_text()))
