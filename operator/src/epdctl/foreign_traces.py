"""Reads traces that other programs have written."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from epd_operator.advice.simulation.traffic import MAX_IMAGES, MAX_TOKENS

Count = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
ImageCount = Annotated[int, Field(ge=0, le=MAX_IMAGES)]


class TraceFormat(StrEnum):
    """Formats that can be converted."""

    AIPERF = "aiperf"
    MOONCAKE = "mooncake"
    AZURE = "azure"


@dataclass(frozen=True, kw_only=True)
class ForeignRequest:
    """A request of another trace.

    Attributes:
        seconds: when it arrived, from any beginning.
        prompt_tokens: of the prompt.
        output_tokens: of the answer.
        images: how many.
        has_image_tokens: whether prompt_tokens includes those of the images.
    """

    seconds: float
    prompt_tokens: int
    output_tokens: int
    images: int = 0
    has_image_tokens: bool = False


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Metadata(_Record):
    request_start_ns: Annotated[int, Field(ge=0, le=2**63)]
    was_cancelled: bool = False


class _Tokens(_Record):
    value: Count


class _Images(_Record):
    value: ImageCount = 0


class _Metrics(_Record):
    input_sequence_length: _Tokens | None = None
    output_sequence_length: _Tokens | None = None
    num_images: _Images = _Images()


class _AiperfRecord(_Record):
    """A line of profile_export.jsonl: https://docs.nvidia.com/aiperf/tutorials/metrics-analysis/working-with-profile-export-files."""

    metadata: _Metadata
    metrics: _Metrics = _Metrics()
    error: Any = None

    def request(self) -> ForeignRequest | None:
        """None if the request failed or was cancelled: then its tokens are unknown."""
        prompt, output = self.metrics.input_sequence_length, self.metrics.output_sequence_length
        if self.error is not None or self.metadata.was_cancelled or prompt is None or output is None:
            return None
        # aiperf counts the tokens of the text of the prompt.
        return ForeignRequest(
            seconds=self.metadata.request_start_ns / 1e9,
            prompt_tokens=prompt.value,
            output_tokens=output.value,
            images=self.metrics.num_images.value,
        )


class _MooncakeRecord(_Record):
    """A line of https://github.com/kvcache-ai/Mooncake/tree/main/FAST25-release/traces; timestamp in milliseconds."""

    timestamp: Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
    input_length: Count
    output_length: Count

    def request(self) -> ForeignRequest:
        """As a request."""
        return ForeignRequest(
            seconds=self.timestamp / 1000, prompt_tokens=self.input_length, output_tokens=self.output_length
        )


class _AzureRow(_Record):
    """A row of a CSV file of https://github.com/Azure/AzurePublicDataset; only the LMM trace has NumImages."""

    timestamp: Annotated[str, Field(alias="TIMESTAMP", max_length=64)]
    context: Annotated[Count, Field(alias="ContextTokens")]
    generated: Annotated[Count, Field(alias="GeneratedTokens")]
    images: Annotated[ImageCount, Field(alias="NumImages")] = 0

    def request(self) -> ForeignRequest:
        """As a request.

        Raises:
            ValueError: the time is not a time.
        """
        # The traces have seven digits after the second; Python reads six.
        whole, _, rest = self.timestamp.replace("T", " ").partition(".")
        digits = "".join(character for character in rest.partition("+")[0] if character.isdecimal())
        try:
            time = datetime.fromisoformat(whole.partition("+")[0].rstrip("Z")).replace(tzinfo=UTC)
        except ValueError:
            raise ValueError(f"TIMESTAMP: {self.timestamp!r} is not a time such as 2023-11-16 18:17:03.97") from None
        return ForeignRequest(
            seconds=time.timestamp() + float(f"0.{digits or 0}"),
            prompt_tokens=self.context,
            output_tokens=self.generated,
            images=self.images,
            has_image_tokens=True,
        )


def read(path: str, *, form: TraceFormat) -> list[ForeignRequest]:
    """The completed requests of a trace.

    Raises:
        ValueError: the file cannot be read, a line is wrong, or no request was completed.
    """
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            rows = _csv_rows(file) if form is TraceFormat.AZURE else _json_lines(file)
            found = [request for request in _requests(rows, path=path, form=form) if request is not None]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    if not found:
        raise ValueError(f"{path}: has no completed request")
    return found


_RECORDS: Mapping[TraceFormat, type[_AiperfRecord | _MooncakeRecord | _AzureRow]] = {
    TraceFormat.AIPERF: _AiperfRecord,
    TraceFormat.MOONCAKE: _MooncakeRecord,
    TraceFormat.AZURE: _AzureRow,
}


def _json_lines(file: TextIO) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield number, line


def _csv_rows(file: TextIO) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, row in enumerate(csv.DictReader(file), start=2):
        yield number, {name: value for name, value in row.items() if isinstance(name, str)}


def _requests(rows: Iterator[tuple[int, Any]], *, path: str, form: TraceFormat) -> Iterator[ForeignRequest | None]:
    for number, row in rows:
        try:
            data = row if form is TraceFormat.AZURE else json.loads(row)
            yield _RECORDS[form].model_validate(data).request()
        except ValidationError as error:
            cause = error.errors(include_input=False, include_url=False)[0]
            field = ".".join(map(str, cause["loc"])) or "the line"
            raise ValueError(f"{path}: line {number}: {field}: {cause['msg']}") from None
        except (RecursionError, ValueError) as error:
            raise ValueError(f"{path}: line {number}: {error}") from None
