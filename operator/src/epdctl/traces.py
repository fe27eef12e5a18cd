"""Traces: one request per line, in JSON. docs/simulate.md describes the format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from epd_operator.advice.simulation.traffic import MAX_IMAGES, MAX_TOKENS, Arrival, Kind
from epdctl.simulation_input import Fields, ImageSize, Tokens

MAX_LINE_CHARACTERS = 1_000_000


class TraceImage(ImageSize):
    """An image; the same id stands for the same image."""

    id: Annotated[str, Field(min_length=1, max_length=256)] | None = None


class TraceRequest(Fields):
    """A line."""

    timestamp: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
    text_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)]
    output_tokens: Tokens
    images: Annotated[tuple[TraceImage, ...], Field(max_length=MAX_IMAGES)] = ()


def read_trace(path: str) -> Iterator[Arrival]:
    """The requests of a trace, as they are needed.

    Raises:
        ValueError: the file cannot be read, a field of a line is wrong, or times are not in order.
    """
    kinds: dict[Any, Kind] = {}
    last, number = 0.0, 0
    for number, request in _requests(path):
        if request.timestamp < last:
            raise ValueError(f"{path}: line {number}: timestamp: {request.timestamp:g} is before the line above it")
        last = request.timestamp
        images = tuple(image.image() for image in request.images)
        size = (request.text_tokens, request.output_tokens, images)
        kind = kinds.get(size)
        if kind is None:
            kind = kinds[size] = Kind(
                text_tokens=request.text_tokens, output_tokens=request.output_tokens, images=images
            )
        has_ids = any(image.id is not None for image in request.images)
        keys = tuple(image.id or f"{number}/{n}" for n, image in enumerate(request.images)) if has_ids else None
        yield request.timestamp, kind, keys
    if not number:
        raise ValueError(f"{path}: the trace is empty: write one request per line")


def _requests(path: str) -> Iterator[tuple[int, TraceRequest]]:
    try:
        with Path(path).open(encoding="utf-8") as file:
            number = 0
            while line := file.readline(MAX_LINE_CHARACTERS + 1):
                number += 1
                if len(line) > MAX_LINE_CHARACTERS:
                    raise ValueError(f"{path}: line {number}: is longer than {MAX_LINE_CHARACTERS} characters")
                if line.strip():
                    yield number, _request(line, path=path, number=number)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None


def _request(line: str, *, path: str, number: int) -> TraceRequest:
    try:
        return TraceRequest.model_validate(json.loads(line))
    except ValidationError as error:
        cause = error.errors(include_input=False, include_url=False)[0]
        field = ".".join(map(str, cause["loc"])) or "the line"
        raise ValueError(f"{path}: line {number}: {field}: {cause['msg']}") from None
    except (json.JSONDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path}: line {number}: is not JSON: {error}") from None
