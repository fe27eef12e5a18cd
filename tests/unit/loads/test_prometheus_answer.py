"""Reading the answers of a Prometheus server."""

from __future__ import annotations

from typing import Any

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.prometheus_answer import newest_pages
from unit.loads.prometheus_answers import NOW, UNIX_NOW, answer, engine, in_flight, series, target


def load(*found: Any, stage: StageName = StageName.PD) -> tuple[float | None, float | None]:
    """Requests, and when they were measured."""
    page = newest_pages(answer(*found), targets=[target(stage=stage)], now=NOW, unix_now=UNIX_NOW)["p"]
    return page.reading.requests, page.measured_at


def test_values_have_the_time_of_their_samples() -> None:
    assert load(*engine("2", "1", age=20)) == (3, 80.0)


def test_an_empty_result_gives_a_missing_value_and_not_zero() -> None:
    assert load() == (None, None)


def test_each_pod_gets_its_own_series_and_other_pods_are_ignored() -> None:
    found = [*engine("2", "1"), *engine("5", "0", pod="q"), *engine("7", "7", pod="pxq")]
    pages = newest_pages(answer(*found), targets=[target(), target("q")], now=NOW, unix_now=UNIX_NOW)
    assert {pod: page.reading.requests for pod, page in pages.items()} == {"p": 3, "q": 5}


def test_series_from_before_a_restart_are_not_added_to_those_after_it() -> None:
    before = engine("8", "90", age=40, worker_id="old")
    assert load(*before, *engine("1", "0", age=10, worker_id="new")) == (1, 90.0)


def test_with_two_prometheus_replicas_behind_one_address_the_newer_samples_are_used() -> None:
    assert load(*engine("4", "4", age=7, replica="a"), *engine("5", "5", age=3, replica="b")) == (10, 97.0)


def test_missing_samples_of_the_newest_scrape_are_not_replaced_by_older_ones() -> None:
    running, waiting = engine("2", "1")
    waiting["values"].pop()
    assert load(running, waiting) == (None, None)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "", "x", None, {}])
def test_an_impossible_value_is_missing(value) -> None:
    assert load(*engine("2", value)) == (None, None)
    assert load(*engine("2", "1", engine="0"), *engine("0", value, engine="1")) == (None, None)


def test_a_sample_from_the_future_is_missing() -> None:
    assert load(*engine("2", "1", age=-3600)) == (None, None)
    # Clocks of different machines differ slightly.
    assert load(*engine("2", "1", age=-2)) == (3, NOW)


def test_for_a_group_only_the_pd_process_counts() -> None:
    pd = [*engine("2", "1", age=5), in_flight("6", "backend", age=5)]
    encoders = [in_flight("9", "encode", age=1), series("dynamo_work_handler_queue_depth", "0", age=1)]
    assert load(*pd, *encoders, stage=StageName.GROUP) == (6, 95.0)


def test_the_load_of_an_encoder_is_the_same_as_from_its_own_page() -> None:
    queued = series("dynamo_work_handler_queue_depth", "2", age=4)
    assert load(in_flight("9", "encode", age=4), queued, stage=StageName.ENCODER) == (11, 96.0)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        {},
        {"metric": None, "values": [[1, "1"]]},
        {"metric": {"pod": "p"}, "values": []},
        {"metric": {"pod": "p"}, "values": [[1]]},
        {"metric": {"pod": "p"}, "values": [["x", "1"]]},
        {"metric": {"pod": "p"}, "values": [["nan", "1"]]},
        {"metric": {"pod": "p"}, "histograms": [[1, {}]]},
    ],
)
def test_a_malformed_series_does_not_affect_the_others(odd) -> None:
    assert load(odd, *engine("2", "1"), odd) == (3, NOW)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"1" * 8_000_000,
        b"[" + b"[]," * 1_000_000 + b"0]",
        b"\xff\xfe",
        b'{"status": "error", "errorType": "timeout"}',
        b'{"status": "success", "data": {"resultType": "vector", "result": []}}',
        b'{"status": "success", "data": {"resultType": "matrix", "result": {}}}',
    ],
)
def test_an_invalid_response_body_is_refused(body) -> None:
    with pytest.raises(ValueError, match="not "):
        newest_pages(body, targets=[target()], now=NOW, unix_now=UNIX_NOW)
