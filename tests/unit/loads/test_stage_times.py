"""Mean time of requests in each stage, between two measurements of every pod."""

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


# Recorded pages: 13 requests were served between the two recordings, all with images


def test_recorded_pages_of_an_encoder_give_the_time_of_requests_with_images():
    before, after = (page(f"encoder_{when}_images", StageName.ENCODER).stages for when in ("before", "after"))
    assert before is not None
    assert after is not None
    assert before.encode == Totals(seconds=0.46956471, count=1)
    times = stage_times({"e": before}, {"e": after})
    assert times.encode == Mean(milliseconds=pytest.approx(362.26, abs=0.01), count=13)
    assert (times.queue, times.prefill, times.decode) == (None, None, None)


@pytest.mark.parametrize("stage", [StageName.PD, StageName.WORKER, StageName.GROUP])
def test_recorded_pages_of_an_engine_give_queue_prefill_and_decode_times(stage):
    before, after = (page(f"pd_{when}_images", stage).stages for when in ("before", "after"))
    assert before is not None
    assert after is not None
    times = stage_times({"p": before}, {"p": after})
    assert times.queue == Mean(milliseconds=pytest.approx(0.018, abs=0.001), count=13)
    assert times.prefill == Mean(milliseconds=pytest.approx(5.206, abs=0.001), count=13)
    assert times.decode == Mean(milliseconds=pytest.approx(63.16, abs=0.01), count=13)
    assert times.encode is None


def test_encoding_takes_most_of_the_ttft_in_recorded_pages_with_images():
    encode = [page(f"encoder_{when}_images", StageName.ENCODER).stages for when in ("before", "after")]
    frontends = [page(f"frontend_{when}_images", StageName.FRONTEND).latency for when in ("before", "after")]
    latency = mean_latency({"f": frontends[0]}, {"f": frontends[1]})
    assert latency is not None
    assert latency.first_token is not None
    found = share(stage_times({"e": encode[0]}, {"e": encode[1]}).encode, latency)
    assert found == pytest.approx(362.26, abs=0.01)
    assert latency.first_token.milliseconds == pytest.approx(459.2, abs=0.1)


# Means between two measurements


def test_pods_are_weighted_by_their_requests():
    earlier = {"a": encoder(100, 10), "b": encoder(0, 0)}
    later = {"a": encoder(109, 19), "b": encoder(9, 1)}
    assert encoders(stage_times(earlier, later)) == Mean(milliseconds=1800, count=10)


def test_a_restarted_pod_counts_from_zero():
    assert encoders(stage_times({"a": encoder(100, 50)}, {"a": encoder(4, 2)})) == Mean(milliseconds=2000, count=2)


def test_without_traffic_there_are_no_times():
    assert stage_times({"a": encoder(5, 5)}, {"a": encoder(5, 5)}) == StageTimes()
    assert stage_times({}, {}) == StageTimes()


def test_a_pod_without_an_earlier_measurement_does_not_count():
    assert stage_times({}, {"a": encoder(1000, 10)}) == StageTimes()
    assert stage_times({"a": StageTotals()}, {"a": encoder(1000, 10)}) == StageTimes()


# The share of encoders in TTFT


def test_requests_without_images_count_with_zero_encode_time():
    assert share(Mean(milliseconds=800, count=10), first_token(500, 40)) == 200


def test_parallel_parts_of_a_split_request_count_as_one_visit_to_an_encoder():
    assert share(Mean(milliseconds=300, count=40), first_token(500, 10)) == 300


def test_the_encode_share_is_never_more_than_the_ttft():
    assert share(Mean(milliseconds=1e18, count=1e15), first_token(500, 10)) == 500


def test_without_both_measurements_there_is_no_encode_share():
    assert share(None, first_token(500, 10)) is None
    assert share(Mean(milliseconds=300, count=40), MeanLatency(measured_at=1.0)) is None


# Hostile pages


def test_times_of_other_endpoints_and_components_do_not_count_for_an_encoder():
    for labels in ('dynamo_component="backend",dynamo_endpoint="generate"', 'dynamo_component="encode"'):
        text = f"{DURATION}_sum{{{labels}}} 4\n{DURATION}_count{{{labels}}} 2\n"
        assert read_page(text.encode(), stage=StageName.ENCODER, at=1.0).stages is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e999", "1e16", "x", ""])
def test_an_impossible_time_is_missing_and_does_not_affect_other_values(value):
    encoder_page = (
        f"dynamo_component_inflight_requests{{{ENCODE}}} 3\n"
        f"{DURATION}_sum{{{ENCODE}}} {value}\n{DURATION}_count{{{ENCODE}}} 2\n"
    )
    assert read_page(encoder_page.encode(), stage=StageName.ENCODER, at=1.0) == PageReading(requests=3)
    prefill, queue = "vllm:request_prefill_time_seconds", "vllm:request_queue_time_seconds"
    engine_page = f"{ENGINE}{prefill}_sum 2\n{prefill}_count {value}\n{queue}_sum 6\n{queue}_count 3\n"
    reading = read_page(engine_page.encode(), stage=StageName.PD, at=1.0)
    assert reading == PageReading(requests=0, stages=StageTotals(queue=Totals(seconds=6, count=3)))


# The latest measurements


def measurements(**totals: StageTotals | None) -> Measurements:
    loads = {pod: PodLoad(name=pod, ready=True, requests=0, measured_at=1.0) for pod in totals}
    return Measurements(loads=loads, stages={pod: found for pod, found in totals.items() if found is not None})


def test_times_are_computed_between_the_last_two_rounds_and_span_a_round_without_values():
    store: LatestMeasurements[str] = LatestMeasurements()
    assert store.stage_times("d") == StageTimes()
    store.record("d", measurements(a=encoder(0, 0)))
    store.record("d", measurements(a=encoder(1, 1)))
    assert encoders(store.stage_times("d")) == Mean(milliseconds=1000, count=1)
    store.record("d", measurements(a=None))
    assert store.stage_times("d") == StageTimes()
    store.record("d", measurements(a=encoder(7, 4)))
    assert encoders(store.stage_times("d")) == Mean(milliseconds=2000, count=3)


def test_the_last_measurement_of_a_removed_pod_is_not_used():
    store: LatestMeasurements[str] = LatestMeasurements()
    store.record("d", measurements(a=encoder(0, 0)))
    store.record("d", measurements(b=encoder(0, 0)))
    store.record("d", measurements(a=encoder(3, 3)))
    assert store.stage_times("d") == StageTimes()
