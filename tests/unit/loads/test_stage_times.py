"""How long requests spend in each stage, from two readings of every pod."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.latency import (
    Mean,
    MeanLatency,
    StageTimes,
    StageTotals,
    Totals,
    encode_share,
    mean_latency,
    stage_times,
)
from epd_operator.loads.latest import LatestMeasurements
from epd_operator.loads.measurements import Measurements
from epd_operator.loads.pod_metrics import PageReading, read_page
from epd_operator.scaling.model import PodLoad

PAGES = Path(__file__).parent / "pages"
DURATION = "dynamo_component_request_duration_seconds"
ENCODE = 'dynamo_component="encode",dynamo_endpoint="generate"'
ENGINE = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"


def page(name: str, stage: StageName) -> PageReading:
    return read_page((PAGES / f"{name}.txt").read_bytes(), stage=stage, at=1.0)


def encoder(seconds: float, count: float) -> StageTotals:
    return StageTotals(encode=Totals(seconds=seconds, count=count))


def encoders(times: StageTimes) -> Mean | None:
    return times.encode


def first_token(milliseconds: float, count: float) -> MeanLatency:
    return MeanLatency(measured_at=1.0, first_token=Mean(milliseconds=milliseconds, count=count))


def share(encode: Mean | None, latency: MeanLatency) -> float | None:
    found = encode_share(StageTimes(encode=encode), latency)
    return found.milliseconds if found else None


# Real pages: between the two, 13 requests with images and none without


def test_a_real_encoder_tells_the_time_of_requests_with_images():
    before, after = (page(f"encoder_{when}_images", StageName.ENCODER).stages for when in ("before", "after"))
    assert before is not None
    assert after is not None
    assert before.encode == Totals(seconds=0.46956471, count=1)
    times = stage_times({"e": before}, {"e": after})
    assert times.encode == Mean(milliseconds=pytest.approx(362.26, abs=0.01), count=13)
    assert (times.queue, times.prefill, times.decode) == (None, None, None)


@pytest.mark.parametrize("stage", [StageName.PD, StageName.WORKER, StageName.GROUP])
def test_a_real_engine_tells_its_queue_prefill_and_decode(stage):
    before, after = (page(f"pd_{when}_images", stage).stages for when in ("before", "after"))
    assert before is not None
    assert after is not None
    times = stage_times({"p": before}, {"p": after})
    assert times.queue == Mean(milliseconds=pytest.approx(0.018, abs=0.001), count=13)
    assert times.prefill == Mean(milliseconds=pytest.approx(5.206, abs=0.001), count=13)
    assert times.decode == Mean(milliseconds=pytest.approx(63.16, abs=0.01), count=13)
    assert times.encode is None


def test_the_encoder_explains_most_of_the_time_to_the_first_token_of_real_requests_with_images():
    encode = [page(f"encoder_{when}_images", StageName.ENCODER).stages for when in ("before", "after")]
    fronts = [page(f"frontend_{when}_images", StageName.FRONTEND).latency for when in ("before", "after")]
    latency = mean_latency({"f": fronts[0]}, {"f": fronts[1]})
    assert latency is not None
    assert latency.first_token is not None
    found = share(stage_times({"e": encode[0]}, {"e": encode[1]}).encode, latency)
    assert found == pytest.approx(362.26, abs=0.01)
    assert latency.first_token.milliseconds == pytest.approx(459.2, abs=0.1)


# Growth


def test_pods_weigh_by_their_requests():
    earlier = {"a": encoder(100, 10), "b": encoder(0, 0)}
    later = {"a": encoder(109, 19), "b": encoder(9, 1)}
    assert encoders(stage_times(earlier, later)) == Mean(milliseconds=1800, count=10)


def test_a_restarted_pod_counts_from_zero():
    assert encoders(stage_times({"a": encoder(100, 50)}, {"a": encoder(4, 2)})) == Mean(milliseconds=2000, count=2)


def test_without_traffic_there_is_no_time():
    assert stage_times({"a": encoder(5, 5)}, {"a": encoder(5, 5)}) == StageTimes()
    assert stage_times({}, {}) == StageTimes()


def test_a_pod_without_a_starting_point_does_not_count():
    assert stage_times({}, {"a": encoder(1000, 10)}) == StageTimes()
    assert stage_times({"a": StageTotals()}, {"a": encoder(1000, 10)}) == StageTimes()


# The encoders' share


def test_text_requests_weigh_in_with_no_time_at_an_encoder():
    assert share(Mean(milliseconds=800, count=10), first_token(500, 40)) == 200


def test_parts_of_a_split_request_work_side_by_side_and_are_no_more_than_a_visit_per_request():
    assert share(Mean(milliseconds=300, count=40), first_token(500, 10)) == 300


def test_the_share_is_never_more_than_the_whole():
    assert share(Mean(milliseconds=1e18, count=1e15), first_token(500, 10)) == 500


def test_what_was_not_measured_has_no_share():
    assert share(None, first_token(500, 10)) is None
    assert share(Mean(milliseconds=300, count=40), MeanLatency(measured_at=1.0)) is None


# Pages that may be hostile


def test_other_endpoints_and_components_are_not_the_encoders_time():
    for labels in ('dynamo_component="backend",dynamo_endpoint="generate"', 'dynamo_component="encode"'):
        text = f"{DURATION}_sum{{{labels}}} 4\n{DURATION}_count{{{labels}}} 2\n"
        assert read_page(text.encode(), stage=StageName.ENCODER, at=1.0).stages is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e999", "1e16", "x", ""])
def test_a_time_that_cannot_be_is_missing_and_takes_nothing_else_away(value):
    encoder_page = (
        f"dynamo_component_inflight_requests{{{ENCODE}}} 3\n"
        f"{DURATION}_sum{{{ENCODE}}} {value}\n{DURATION}_count{{{ENCODE}}} 2\n"
    )
    assert read_page(encoder_page.encode(), stage=StageName.ENCODER, at=1.0) == PageReading(requests=3)
    prefill, queue = "vllm:request_prefill_time_seconds", "vllm:request_queue_time_seconds"
    engine_page = f"{ENGINE}{prefill}_sum 2\n{prefill}_count {value}\n{queue}_sum 6\n{queue}_count 3\n"
    reading = read_page(engine_page.encode(), stage=StageName.PD, at=1.0)
    assert reading == PageReading(requests=0, stages=StageTotals(queue=Totals(seconds=6, count=3)))


# The store


def readings(**totals: StageTotals | None) -> Measurements:
    loads = {pod: PodLoad(name=pod, ready=True, requests=0, measured_at=1.0) for pod in totals}
    return Measurements(loads=loads, stages={pod: found for pod, found in totals.items() if found is not None})


def test_times_are_those_between_the_last_two_rounds_and_span_a_round_that_read_nothing():
    store: LatestMeasurements[str] = LatestMeasurements()
    assert store.stage_times("d") == StageTimes()
    store.record("d", readings(a=encoder(0, 0)))
    store.record("d", readings(a=encoder(1, 1)))
    assert encoders(store.stage_times("d")) == Mean(milliseconds=1000, count=1)
    store.record("d", readings(a=None))
    assert store.stage_times("d") == StageTimes()
    store.record("d", readings(a=encoder(7, 4)))
    assert encoders(store.stage_times("d")) == Mean(milliseconds=2000, count=3)


def test_a_pod_that_is_gone_is_no_starting_point_any_more():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", readings(a=encoder(0, 0)))
    store.record("d", readings(b=encoder(0, 0)))
    store.record("d", readings(a=encoder(3, 3)))
    assert store.stage_times("d") == StageTimes()
