"""Mean latencies between two measurements."""

from __future__ import annotations

from epd_operator.loads.latency import LatencyTotals, Mean, Totals, mean_latency


def totals(seconds: float, count: float, *, at: float = 1.0, inter: Totals | None = None) -> LatencyTotals:
    return LatencyTotals(measured_at=at, first_token=Totals(seconds=seconds, count=count), inter_token=inter)


def test_the_mean_covers_only_the_interval_between_the_measurements():
    latency = mean_latency({"a": totals(1000, 10)}, {"a": totals(1003, 16, at=9.0)})
    assert latency is not None
    assert latency.first_token == Mean(milliseconds=500, count=6)
    assert latency.measured_at == 9.0


def test_frontends_are_weighted_by_their_requests():
    earlier = {"a": totals(0, 0), "b": totals(0, 0)}
    latency = mean_latency(earlier, {"a": totals(9, 9, at=4.0), "b": totals(9, 1, at=3.0)})
    assert latency is not None
    assert latency.first_token == Mean(milliseconds=1800, count=10)
    assert latency.measured_at == 3.0


def test_without_traffic_there_is_no_mean():
    latency = mean_latency({"a": totals(5, 5)}, {"a": totals(5, 5)})
    assert latency is not None
    assert latency.first_token is None
    assert latency.inter_token is None


def test_a_fraction_of_a_request_does_not_count_as_traffic():
    latency = mean_latency({"a": totals(0, 0)}, {"a": totals(1e15, 1e-300)})
    assert latency is not None
    assert latency.first_token is None


def test_counters_that_decreased_belong_to_a_restarted_process_and_count_from_zero():
    latency = mean_latency({"a": totals(100, 100)}, {"a": totals(4, 2)})
    assert latency is not None
    assert latency.first_token == Mean(milliseconds=2000, count=2)


def test_a_restart_with_a_higher_count_is_detected_by_its_lower_sum():
    latency = mean_latency({"a": totals(100, 2)}, {"a": totals(6, 3)})
    assert latency is not None
    assert latency.first_token == Mean(milliseconds=2000, count=3)


def test_a_frontend_without_an_earlier_measurement_does_not_count():
    assert mean_latency({}, {"a": totals(1000, 10)}) is None
    latency = mean_latency({"b": totals(0, 0)}, {"a": totals(1000, 10), "b": totals(1, 1)})
    assert latency is not None
    assert latency.first_token == Mean(milliseconds=1000, count=1)


def test_one_unreadable_latency_does_not_affect_the_other():
    first = totals(0, 0, inter=Totals(seconds=1, count=100))
    second = LatencyTotals(measured_at=2.0, inter_token=Totals(seconds=3, count=200))
    latency = mean_latency({"a": first}, {"a": second})
    assert latency is not None
    assert latency.first_token is None
    assert latency.inter_token == Mean(milliseconds=20, count=100)
