"""Reconstructs metrics pages of pods from the answer of a Prometheus server.

The query is a range selector in an instant query. Unlike an instant vector, its answer contains the time at which each
sample was scraped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.backends import dynamo
from epd_operator.loads.fetch import PageOutcome
from epd_operator.loads.measurements import PageResult
from epd_operator.loads.pod_metrics import read_samples
from epd_operator.loads.targets import Target
from epd_operator.loads.text_format import Sample, Samples, parse_value

MAX_SKEW_SECONDS = 10.0
"""Maximum time that a sample may lie in the future. With a larger difference of the clocks, its age is unknown."""


@dataclass(frozen=True, kw_only=True)
class _Point:
    """The last sample of a series. `value` is None if it is invalid."""

    labels: Mapping[str, str]
    taken_at: float
    value: float | None


def newest_pages(answer: bytes, *, targets: Sequence[Target], now: float, unix_now: float) -> dict[str, PageResult]:
    """The newest page of each target, by pod name.

    Args:
        answer: body of the answer to the query.
        targets: pods of the query.
        now: monotonic time.
        unix_now: Unix time of the same moment.

    Raises:
        ValueError: the body is not an answer to such a query.
    """
    by_pod: dict[str | None, list[_Point]] = {}
    for point in _points(answer):
        by_pod.setdefault(point.labels.get("pod"), []).append(point)
    return {
        target.pod: _newest_page(by_pod.get(target.pod, []), stage=target.stage, now=now, unix_now=unix_now)
        for target in targets
    }


def _newest_page(points: list[_Point], *, stage: StageName, now: float, unix_now: float) -> PageResult:
    """The page with the newest samples.

    All samples of one page have the same timestamp. Only samples with the newest timestamp are used, so series of an
    earlier process of the pod, or of a second Prometheus server, are not added to it.
    """
    if stage is StageName.GROUP:
        # Only the PD process counts. The pickup queue has no label for the process, and it is almost always empty.
        points = [p for p in points if p.labels.get("dynamo_component") != "encode" and _name(p) != dynamo.PICKUP_QUEUE]
    newest = max((point.taken_at for point in points), default=-math.inf)
    if not points or newest > unix_now + MAX_SKEW_SECONDS:
        return PageResult(outcome=PageOutcome.UNREADABLE)
    by_name: dict[str, tuple[Sample, ...] | None] = {}
    for point in points:
        if point.taken_at != newest:
            continue
        samples = by_name.get(_name(point), ())
        if samples is None or point.value is None:
            by_name[_name(point)] = None
        else:
            by_name[_name(point)] = (*samples, Sample(labels=point.labels, value=point.value))
    measured_at = now - max(0.0, unix_now - newest)
    return PageResult.of(read_samples(Samples(by_name), stage=stage, at=measured_at), measured_at=measured_at)


def _points(answer: bytes) -> Iterator[_Point]:
    try:
        document = json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise ValueError("not JSON, or nested too deeply") from error
    data = document.get("data") if isinstance(document, dict) and document.get("status") == "success" else None
    if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
        raise ValueError("not an answer with a range of samples")
    for series in data["result"]:
        point = _last_point(series)
        if point is not None:
            yield point


def _last_point(series: Any) -> _Point | None:
    """The last sample of a series. None if it has no float samples, for example a native histogram."""
    try:
        labels = {str(key): str(value) for key, value in series["metric"].items()}
        taken_at, text = series["values"][-1]
        taken_at = float(taken_at)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(taken_at):
        return None
    try:
        value = parse_value(str(text))
    except ValueError:
        value = None
    return _Point(labels=labels, taken_at=taken_at, value=value)


def _name(point: _Point) -> str:
    return point.labels.get("__name__", "")
