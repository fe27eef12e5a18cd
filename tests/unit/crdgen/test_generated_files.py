"""The generated files are current and complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from crdgen.__main__ import main
from crdgen.files import generated_files
from crdgen.structural import Schema, children

from support.bad_objects import BAD_OBJECTS
from support.schemas import compiled, rule_messages

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", sorted(generated_files()))
def test_the_committed_file_is_current(name: str) -> None:
    assert (ROOT / name).read_text() == generated_files()[name]


def test_generated_files_can_be_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = set(generated_files())
    assert main(["--root", str(tmp_path), "--check"]) == 1
    assert not any(tmp_path.iterdir())
    assert main(["--root", str(tmp_path)]) == 0
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*") if path.is_file()} == names
    capsys.readouterr()
    assert main(["--root", str(tmp_path), "--check"]) == 0
    assert capsys.readouterr().out == ""
    (tmp_path / "docs" / "api-reference.md").write_text("old")
    assert main(["--root", str(tmp_path), "--check"]) == 1
    assert capsys.readouterr().out == "docs/api-reference.md: not up to date, run `make crds`\n"


def test_every_rule_has_a_bad_object_that_shows_its_message() -> None:
    shown = [bad.message for bad in BAD_OBJECTS]
    untested = {message for message in rule_messages(compiled()) if not any(part in message for part in shown)}
    assert untested == set()


def _fields(schema: Schema) -> Iterator[str]:
    for step, child in children(schema):
        if step.startswith("."):
            yield step.removeprefix(".")
        yield from _fields(child)


def test_the_reference_has_a_row_for_every_field_and_every_rule() -> None:
    page = generated_files()["docs/api-reference.md"]
    spec = compiled()["properties"]["spec"]
    assert {field for field in _fields(spec) if f"| `{field}` |" not in page} == set()
    assert {message for message in rule_messages(compiled()) if message not in page} == set()


def test_links_in_the_reference_lead_to_headings_that_exist() -> None:
    page = generated_files()["docs/api-reference.md"]
    headings = {line.removeprefix("## ").lower() for line in page.splitlines() if line.startswith("## ")}
    links = {part.split(")")[0] for part in page.split("](#")[1:]}
    assert links
    assert links <= headings


def test_the_crd_is_small_enough_for_client_side_apply() -> None:
    crd = yaml.safe_load(generated_files()["crds/epd.dev_epddeployments.yaml"])
    limit_of_annotations = 262144
    # What kubectl stores in last-applied-configuration: JSON by Go, which escapes these characters for HTML.
    text = json.dumps(crd, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    assert len(text.encode()) < limit_of_annotations
