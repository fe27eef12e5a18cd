"""``epdctl estimate``: whether separate encoders are worth a test, from mean times of the stages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from pydantic.alias_generators import to_camel

from epd_operator.advice.estimate import (
    TIMES,
    WORTH_TESTING_PERCENT,
    StageTimes,
    Workload,
    break_even,
    mixture,
    sweep,
)
from epdctl.output import WIDTH, Format, as_data, bar, fail, table
from epdctl.workloads import parse_sweep, read_workloads

_ALL = "all requests"
_BAR_WIDTH = WIDTH - 2


def _time(description: str) -> Any:
    return typer.Option(help=f"{description}, in milliseconds.", show_default=False)


def estimate(
    *,
    encode: Annotated[float | None, _time("Mean time of the vision encoder")] = None,
    prefill: Annotated[float | None, _time("Mean time of prefill, without encode")] = None,
    decode: Annotated[float | None, _time("Mean time of decode, for all output tokens")] = None,
    transfer: Annotated[float | None, _time("Mean transfer time of the embeddings, if encoders are separate")] = None,
    queue_saved: Annotated[float | None, _time("Waiting time that separate encoders save")] = None,
    file: Annotated[
        str, typer.Option("--filename", "-f", metavar="FILE", help="YAML file with workloads, or - for standard input.")
    ] = "",
    what_if: Annotated[
        str,
        typer.Option("--sweep", metavar="TIME=FIRST..LAST", help="Vary one mean time, for example decode=128..2048."),
    ] = "",
    points: Annotated[int, typer.Option(min=2, max=1000, help="Number of values of a sweep.")] = 9,
    output: Annotated[Format, typer.Option("--output", "-o", help="Format of the result.")] = Format.TABLE,
) -> None:
    """Estimate whether separate encoders (CoLocated or Disaggregated) are worth a test.

    The estimate uses mean times of your own requests. It knows nothing of batching, of different GPUs and of
    processes that share one: it says whether a test is worth its time, not what the test will show.

    Example: epdctl estimate --encode 420 --prefill 90 --decode 260 --transfer 35 --queue-saved 180
    """
    given = dict(zip(TIMES, (encode, prefill, decode, transfer, queue_saved), strict=True))
    try:
        workloads = _workloads(file, given=given)
        rows = _with_sum(workloads)
        time, values = parse_sweep(what_if, points=points) if what_if else (None, ())
        swept = _swept(rows[-1][1], time=time, values=values) if time is not None else ()
    except ValueError as error:
        raise fail(error) from None
    if output is Format.TABLE:
        typer.echo(_text(rows, time=time, swept=swept))
    else:
        typer.echo(as_data(_data(rows, time=time, swept=swept), form=output))


_Row = tuple[str, StageTimes]


def _workloads(file: str, *, given: dict[str, float | None]) -> Sequence[Workload]:
    times = {time: value for time, value in given.items() if value is not None}
    if file:
        if times:
            raise ValueError(
                f"--filename: cannot be combined with {', '.join(map(_option, times))}: write them into the file"
            )
        return read_workloads(file, standard_input=sys.stdin)
    if missing := [time for time in ("encode", "prefill", "decode") if time not in times]:
        raise ValueError(f"{', '.join(map(_option, missing))}: missing: give these times, or a file with --filename")
    try:
        return [Workload(name="request", times=StageTimes(**times))]
    except ValueError as error:
        times_in_question, _, message = str(error).partition(":")
        raise ValueError(f"{', '.join(map(_option, times_in_question.split(', ')))}:{message}") from None


def _option(time: str) -> str:
    return "--" + time.replace("_", "-")


def _swept(times: StageTimes, *, time: str, values: Sequence[float]) -> tuple[StageTimes, ...]:
    try:
        return sweep(times, time=time, values=values)
    except ValueError as error:
        raise ValueError(f"--sweep: {error}") from None


def _with_sum(workloads: Sequence[Workload]) -> list[_Row]:
    rows = [(workload.name, workload.times) for workload in workloads]
    return [*rows, (_ALL, mixture(workloads))] if len(workloads) > 1 else rows


def _text(rows: Sequence[_Row], *, time: str | None, swept: Sequence[StageTimes]) -> str:
    parts = [
        table(
            ("REQUESTS", "AGGREGATED", "SPLIT", "GAIN", "ADVICE"),
            [(name, *_results(times)) for name, times in rows],
        )
    ]
    for name, times in rows:
        shares = "   ".join(f"{stage} {share:.1f} %" for stage, share in times.shares_percent.items())
        parts.append(
            f"{table((f'{name}: where the time goes without separate encoders',), [])}\n"
            f"  {bar(times.shares_percent, width=_BAR_WIDTH)}\n  {shares}\n"
            f"  worth a test if, all else equal:\n{_limits(times)}"
        )
    if time is not None:
        label = time.replace("_", " ").upper()
        lines = [(f"{getattr(times, time):.1f} ms", *_results(times)) for times in swept]
        parts.append(table((label, "AGGREGATED", "SPLIT", "GAIN", "ADVICE"), lines))
    return "\n\n".join(parts)


def _results(times: StageTimes) -> tuple[str, str, str, str]:
    return f"{times.aggregated:.1f} ms", f"{times.split:.1f} ms", f"{times.gain_percent:+.1f} %", times.verdict


def _limits(times: StageTimes) -> str:
    """For each time, the values at which the advice is to test; and the transfer that costs more than is saved."""
    found = {time: break_even(times, time=time) for time in TIMES}
    signs = {time: ">" if time == "queue_saved" else "<" for time in TIMES}
    limits = [f"{time.replace('_', ' ')} {signs[time]} {ms:.1f} ms" for time, ms in found.items() if ms is not None]
    lines = [*limits] or ["no value of a single time is enough"]
    loss = f"  separate encoders cost time if transfer > {times.queue_saved:.1f} ms (queue saved)"
    return "\n".join([*(f"    {line}" for line in lines), loss])


def _data(rows: Sequence[_Row], *, time: str | None, swept: Sequence[StageTimes]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "testAbovePercent": WORTH_TESTING_PERCENT,
        "estimates": [{"name": name, **_values(times), "breakEvenMs": _break_even(times)} for name, times in rows],
    }
    if time is not None:
        data["sweep"] = {"time": to_camel(time), "estimates": [_values(times) for times in swept]}
    return data


def _values(times: StageTimes) -> dict[str, Any]:
    return {
        "timesMs": {to_camel(time): getattr(times, time) for time in TIMES},
        "sharesPercent": {stage: round(share, 3) for stage, share in times.shares_percent.items()},
        "aggregatedMs": times.aggregated,
        "splitMs": times.split,
        "gainPercent": round(times.gain_percent, 3),
        "advice": str(times.verdict),
    }


def _break_even(times: StageTimes) -> dict[str, float | None]:
    return {to_camel(time): break_even(times, time=time) for time in TIMES}
