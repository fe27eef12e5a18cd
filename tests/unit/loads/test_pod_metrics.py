"""Reading metrics pages. The pages are excerpts of pages of Dynamo 1.6.1 with vLLM 0.31, recorded under load."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads import text_format
from epd_operator.loads.latency import Totals
from epd_operator.loads.pod_metrics import PageReading, read_page
from epd_operator.loads.text_format import MAX_LABELS, MAX_SAMPLES, parse_line

PAGES = Path(__file__).parent / "pages"
ENCODER = 'dynamo_component_inflight_requests{dynamo_component="encode",dynamo_endpoint="generate"}'
GENERATE = 'dynamo_component_inflight_requests{dynamo_component="backend",dynamo_endpoint="generate"}'
ENGINE = f"{GENERATE} 3\nvllm:num_requests_running 2\nvllm:num_requests_waiting 1\n"


def page(name: str) -> bytes:
    return (PAGES / f"{name}.txt").read_bytes()


def read(text: str | bytes, stage: StageName) -> PageReading:
    return read_page(text if isinstance(text, bytes) else text.encode(), stage=stage, at=5.0)


def requests(text: str | bytes, stage: StageName) -> float | None:
    return read(text, stage).requests


@pytest.mark.parametrize(
    ("name", "stage", "expected"),
    [
        ("frontend_fresh", StageName.FRONTEND, 0),
        ("frontend_busy", StageName.FRONTEND, 13),
        ("frontend_later", StageName.FRONTEND, 0),
        ("encoder_idle", StageName.ENCODER, 0),
        ("encoder_busy", StageName.ENCODER, 17),
        ("pd_busy", StageName.PD, 14),
        ("pd_busy", StageName.WORKER, 14),
        ("pd_busy", StageName.GROUP, 14),
    ],
)
def test_recorded_pages_give_the_number_of_requests(name, stage, expected):
    assert requests(page(name), stage) == expected


def test_requests_that_wait_for_images_count_for_a_group_but_not_for_pd():
    assert requests(page("pd_waits_for_images"), StageName.PD) == 0
    assert requests(page("pd_waits_for_images"), StageName.GROUP) == 8


def test_kv_cache_usage_is_given_in_percent():
    assert read(page("pd_busy"), StageName.PD).kv_cache_percent == pytest.approx(4.6967, abs=1e-4)
    assert read(page("encoder_busy"), StageName.ENCODER).kv_cache_percent is None


def test_several_engines_give_the_sum_of_requests_and_the_highest_kv_cache_usage():
    text = "".join(
        f'vllm:num_requests_running{{engine="{i}"}} {i}\nvllm:num_requests_waiting{{engine="{i}"}} 1\n'
        f'vllm:kv_cache_usage_perc{{engine="{i}"}} 0.{i}\n'
        for i in (2, 5)
    )
    assert read(text, StageName.PD) == PageReading(requests=9, kv_cache_percent=50)


def test_requests_that_an_encoder_has_not_picked_up_count_if_the_page_has_their_number():
    assert requests(f"{ENCODER} 4\n", StageName.ENCODER) == 4
    assert requests(f"{ENCODER} 4\ndynamo_work_handler_queue_depth 3\n", StageName.ENCODER) == 7
    assert requests(f"{ENCODER} 4\ndynamo_work_handler_queue_depth NaN\n", StageName.ENCODER) is None


def test_other_components_and_endpoints_do_not_count_for_an_encoder():
    assert requests(f"{GENERATE} 4\n", StageName.ENCODER) is None
    assert requests(f"{ENCODER.replace('generate', 'other')} 4\n", StageName.ENCODER) is None


def test_a_frontend_that_has_served_requests_but_lacks_the_gauge_of_active_ones_is_not_idle():
    served = "dynamo_frontend_disconnected_clients 0\ndynamo_frontend_requests_total 3\n"
    assert requests(served, StageName.FRONTEND) is None
    assert requests("dynamo_frontend_disconnected_clients 0\n", StageName.FRONTEND) == 0


def test_latencies_of_a_frontend_are_totals_and_start_at_zero():
    fresh = read(page("frontend_fresh"), StageName.FRONTEND).latency
    assert fresh is not None
    assert (fresh.first_token, fresh.inter_token, fresh.measured_at) == (Totals(), Totals(), 5.0)
    later = read(page("frontend_later"), StageName.FRONTEND).latency
    assert later is not None
    assert later.first_token == Totals(seconds=12.645330431999996, count=24)
    assert later.inter_token == Totals(seconds=39.295502194, count=7175)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-1", "1e999", "1e16", "zero", "0x10", "1_000", "", "1 2 3"])
@pytest.mark.parametrize("stage", [StageName.PD, StageName.WORKER, StageName.GROUP])
def test_an_impossible_value_is_missing_and_never_zero(value, stage):
    assert requests(ENGINE.replace("waiting 1", f"waiting {value}"), stage) is None
    assert requests(ENGINE, stage) == 3


@pytest.mark.parametrize(
    "line",
    [
        GENERATE + " 1",
        'dynamo_component_inflight_requests{dynamo_endpoint="generate"',
        "dynamo_component_inflight_requests{dynamo_endpoint=generate} 1",
        'dynamo_component_inflight_requests{a="1",a="2"} 1',
        "dynamo_component_inflight_requests{" + "".join(f'a{i}="x",' for i in range(5000)) + "} 1",
    ],
)
def test_a_garbled_or_repeated_line_makes_its_metric_missing(line):
    assert requests(f"{ENGINE}{line}\n", StageName.WORKER) is None
    assert requests(f"{ENGINE}{line}\n", StageName.PD) == 3


def test_invalid_utf_8_makes_only_the_metric_on_its_line_missing():
    assert requests(b"\xff\xfe\x00\n" + ENGINE.encode(), StageName.WORKER) == 3
    assert requests(ENGINE.encode().replace(b"backend", b"back\xffend"), StageName.WORKER) is None


@pytest.mark.parametrize("missing", ["vllm:num_requests_running", "vllm:num_requests_waiting"])
@pytest.mark.parametrize("stage", [StageName.PD, StageName.WORKER, StageName.GROUP])
def test_running_or_waiting_requests_alone_are_not_used_as_the_total(missing, stage):
    assert requests(ENGINE.replace(missing, "vllm:other"), stage) is None


def test_a_kv_cache_usage_above_100_percent_is_missing():
    assert read(f"{ENGINE}vllm:kv_cache_usage_perc 1.5\n", StageName.PD) == PageReading(requests=3)


@pytest.mark.parametrize(
    "line",
    [
        'vllm:num_requests_running{model="a\\"}b {c",} 2 1795965092000',
        "vllm:num_requests_running { engine = '0' } 2".replace("'", '"'),
        "vllm:num_requests_running\t2.0e0\r",
    ],
)
def test_every_valid_notation_of_a_sample_is_read(line):
    assert requests(ENGINE.replace("vllm:num_requests_running 2", line), StageName.PD) == 3


def test_a_metric_with_a_longer_name_is_a_different_metric():
    assert requests(f'{ENGINE}vllm:num_requests_waiting_by_reason{{reason="capacity"}} 9\n', StageName.PD) == 3


def test_a_page_with_thousands_of_series_gives_no_value():
    flood = "".join(f'vllm:num_requests_running{{a="{i}"}} 0\n' for i in range(3000))
    assert requests(flood + "vllm:num_requests_waiting 0\n", StageName.PD) is None


def test_a_sample_with_too_many_labels_gives_no_value():
    def with_labels(count):
        return ENGINE.replace("running 2", "running{" + ",".join(f'a{i}="x"' for i in range(count)) + "} 2")

    assert requests(with_labels(MAX_LABELS), StageName.PD) == 3
    assert requests(with_labels(MAX_LABELS + 1), StageName.PD) is None


def labels(count, number):
    return ",".join(f'l{i}="v"' for i in range(count)) + f',number="{number}"'


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("".join(f"vllm:num_requests_running{{{labels(30, i)}}} 1\n" for i in range(3000)), MAX_SAMPLES),
        ("".join(f"vllm:num_requests_running{{{labels(90, i)}}} 1\n" for i in range(1000)), 1),
        ("vllm:num_requests_running {\n" * 70_000, 1),
        ("vllm:num_requests_" * 110_000, 0),
        ("\n" * 2_000_000, 0),
    ],
    ids=["series", "labels", "garbage", "one line", "empty lines"],
)
def test_the_work_for_a_hostile_page_is_bounded(monkeypatch, text, most):
    lines = []

    def count(line):
        lines.append(line)
        return parse_line(line)

    monkeypatch.setattr(text_format, "parse_line", count)
    assert requests(text, StageName.PD) is None
    assert len(lines) == most


@pytest.mark.parametrize("stage", list(StageName))
@pytest.mark.parametrize(
    "text", ["", "<html>no metrics</html>", "\n" * 1000, "# TYPE vllm:num_requests_running gauge\n"]
)
def test_a_page_without_metrics_of_the_stage_gives_no_values(text, stage):
    assert read(text, stage) == PageReading()


NAMES = st.sampled_from([ENCODER, GENERATE, "vllm:num_requests_running", "dynamo_frontend_active_requests", "#"])
NOISE = st.text(alphabet='{}="\\, \t1.eE+-NaInf\r\x00é\u2028', max_size=30)


@given(st.lists(st.tuples(NAMES, NOISE), max_size=20), st.sampled_from(list(StageName)), st.binary(max_size=20))
def test_garbage_never_raises_and_never_gives_impossible_values(lines, stage, tail):
    text = "\n".join(name + noise for name, noise in lines).encode() + tail
    count = requests(text, stage)
    assert count is None or 0 <= count < float("inf")
