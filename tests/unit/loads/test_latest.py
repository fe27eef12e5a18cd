"""The latest measurements of pods."""

from __future__ import annotations

from epd_operator.loads.latency import LatencyTotals, Mean, Totals
from epd_operator.loads.latest import LatestMeasurements
from epd_operator.loads.measurements import Measurements
from epd_operator.scaling.model import PodLoad


def measurements(at: float, **requests: float | None) -> Measurements:
    return Measurements(
        loads={
            pod: PodLoad(name=pod, ready=True, requests=value, measured_at=None if value is None else at)
            for pod, value in requests.items()
        }
    )


def latencies(at: float, seconds: float, count: float) -> Measurements:
    totals = LatencyTotals(measured_at=at, first_token=Totals(seconds=seconds, count=count))
    return Measurements(loads=measurements(at, f=0).loads, latencies={"f": totals})


def test_a_pod_that_stops_responding_keeps_its_last_value_and_its_time():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", measurements(1.0, a=3, b=4))
    store.record("d", measurements(2.0, a=5, b=None))
    a, b = store.loads("d", pods={"a": True, "b": True})
    assert (a.requests, a.measured_at) == (5, 2.0)
    assert (b.requests, b.measured_at) == (4, 1.0)


def test_a_pod_that_was_never_read_has_no_value_and_no_time():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", measurements(1.0, a=None))
    assert store.loads("d", pods={"a": True, "new": False}) == (
        PodLoad(name="a", ready=True),
        PodLoad(name="new", ready=False),
    )
    assert store.loads("unknown", pods={"a": True}) == (PodLoad(name="a", ready=True),)


def test_readiness_is_current_and_not_from_the_last_measurement():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", measurements(1.0, a=3))
    (load,) = store.loads("d", pods={"a": False})
    assert (load.ready, load.requests) == (False, 3)


def test_pods_that_no_longer_exist_are_forgotten():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", measurements(1.0, a=3, b=4))
    store.record("d", measurements(2.0, b=4))
    store.record("d", measurements(3.0, a=None, b=4))
    assert store.loads("d", pods={"a": True}) == (PodLoad(name="a", ready=True),)


def test_deployments_are_separate_and_can_be_forgotten():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", measurements(1.0, a=3))
    store.record("e", measurements(1.0, a=7))
    store.forget("d")
    store.forget("never-known")
    assert store.loads("d", pods={"a": True})[0].requests is None
    assert store.loads("e", pods={"a": True})[0].requests == 7


def test_above_the_limit_the_deployment_with_the_oldest_round_is_forgotten():
    store: LatestMeasurements[int] = LatestMeasurements(max_deployments=2)
    for key in (1, 2, 1, 3):
        store.record(key, measurements(1.0, a=key))
    assert len(store) == 2
    assert [store.loads(key, pods={"a": True})[0].requests for key in (1, 2, 3)] == [1, None, 3]


def test_latencies_are_computed_between_the_last_two_rounds():
    store: LatestMeasurements[str] = LatestMeasurements()
    assert store.latency("d") is None
    store.record("d", latencies(1.0, seconds=100, count=10))
    assert store.latency("d") is None
    store.record("d", latencies(2.0, seconds=104, count=12))
    first = store.latency("d")
    assert first is not None
    assert first.first_token == Mean(milliseconds=2000, count=2)


def test_a_round_without_a_readable_frontend_has_no_latency_and_the_next_one_spans_the_gap():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", latencies(1.0, seconds=0, count=0))
    store.record("d", measurements(2.0, f=None))
    assert store.latency("d") is None
    store.record("d", latencies(3.0, seconds=3, count=3))
    spanning = store.latency("d")
    assert spanning is not None
    assert spanning.first_token == Mean(milliseconds=1000, count=3)


def test_the_last_measurement_of_a_removed_frontend_is_not_used():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", latencies(1.0, seconds=0, count=0))
    store.record("d", measurements(2.0, other=0))
    store.record("d", latencies(3.0, seconds=3, count=3))
    assert store.latency("d") is None
