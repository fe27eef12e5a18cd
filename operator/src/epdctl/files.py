"""Reads input files. Errors name the file, the field and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

MAX_FILE_CHARACTERS = 1_000_000
MAX_ERRORS = 10

Model = TypeVar("Model", bound=BaseModel)


_YAML_ERRORS = (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError)
"""What PyYAML raises for text that is none, and for tags whose values do not fit, such as ``!!int ''``."""


def read_text(path: str, *, standard_input: TextIO) -> str:
    """A file, or standard input if the path is ``-``.

    Raises:
        ValueError: it cannot be read, or is too long.
    """
    try:
        text = standard_input.read(MAX_FILE_CHARACTERS + 1) if path == "-" else _read(Path(path))
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    if len(text) > MAX_FILE_CHARACTERS:
        raise ValueError(f"{path}: is longer than {MAX_FILE_CHARACTERS} characters")
    return text


def _read(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.read(MAX_FILE_CHARACTERS + 1)


def documents(path: str, text: str) -> Iterator[Any]:
    """The YAML documents of a file, without empty ones.

    Raises:
        ValueError: the text is not YAML.
    """
    try:
        yield from (document for document in yaml.safe_load_all(text) if document is not None)
    except _YAML_ERRORS as error:
        raise ValueError(f"{path}: is not YAML: {error}") from None


def parse(model: type[Model], data: Any, *, path: str, field: str = "") -> Model:
    """Data of a file, checked.

    Raises:
        ValueError: a field is wrong.
    """
    try:
        return model.model_validate(data)
    except (ValidationError, RecursionError) as error:
        causes = error.errors(include_input=False, include_url=False) if isinstance(error, ValidationError) else []
        lines = [
            f"{path}: {'.'.join(map(str, (*filter(None, (field,)), *cause['loc']))) or 'the document'}: {cause['msg']}"
            for cause in causes[:MAX_ERRORS]
        ]
        raise ValueError("\n".join(lines) or f"{path}: is nested too deeply") from None
