"""Reads workloads from a YAML file, and sweeps from an option. Errors name the field and what to write instead."""

from __future__ import annotations

import math
from typing import TextIO

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from epd_operator.advice.estimate import TIMES, StageTimes, Workload
from epdctl.files import documents, parse, read_text


class _WorkloadEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    name: str = Field(min_length=1, max_length=60)
    share: float = 1.0
    encode: float
    prefill: float
    decode: float
    transfer: float = 0.0
    queue_saved: float = 0.0

    def workload(self) -> Workload:
        times = StageTimes(**{time: getattr(self, time) for time in TIMES})
        return Workload(name=self.name, times=times, share=self.share)


class _WorkloadFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    workloads: list[_WorkloadEntry] = Field(min_length=1, max_length=1000)


def read_workloads(path: str, *, standard_input: TextIO) -> tuple[Workload, ...]:
    """Read workloads from a file, or from standard input if the path is ``-``.

    Raises:
        ValueError: the file cannot be read, or a field is wrong.
    """
    text = read_text(path, standard_input=standard_input)
    data = next(documents(path, text), None)
    entries = parse(_WorkloadFile, data, path=path).workloads
    return tuple(_workload(path, number, entry) for number, entry in enumerate(entries))


def _workload(path: str, number: int, entry: _WorkloadEntry) -> Workload:
    try:
        return entry.workload()
    except ValueError as error:
        time, _, message = str(error).partition(":")
        raise ValueError(f"{path}: workloads.{number}.{to_camel(time)}:{message}") from None


def parse_sweep(text: str, *, points: int) -> tuple[str, tuple[float, ...]]:
    """Read a sweep such as ``decode=128..2048``: the time, and values at equal distances.

    Raises:
        ValueError: the text is not a sweep.
    """
    name, equals, values = text.partition("=")
    first, dots, last = values.partition("..")
    time = name.strip().replace("-", "_")
    if not equals or not dots or time not in TIMES:
        names = ", ".join(known.replace("_", "-") for known in TIMES)
        raise ValueError(
            f"--sweep: {text!r}: write TIME=FIRST..LAST, with a TIME of {names}; example: decode=128..2048"
        )
    try:
        start, end = float(first), float(last)
    except ValueError:
        start = end = math.nan
    if not (math.isfinite(start) and math.isfinite(end) and start < end):
        raise ValueError(f"--sweep: {text!r}: FIRST and LAST are milliseconds, and FIRST is less than LAST")
    return time, tuple(start + (end - start) * step / (points - 1) for step in range(points))
