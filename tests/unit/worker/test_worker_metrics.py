"""In-flight requests from metrics pages; the samples are excerpts of pages of Dynamo 1.6.1 with vLLM 0.31.0."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_worker.metrics import in_flight, unread_embeddings
from epd_worker.spec import Role

LABELS = 'dynamo_component="backend",dynamo_endpoint="{}",dynamo_namespace="ns",model="tiny",worker_id="b488"'


def _worker_page(*, component, running=None, waiting=None, endpoint="generate"):
    lines = [
        "# HELP dynamo_component_inflight_requests Number of requests currently being processed",
        "# TYPE dynamo_component_inflight_requests gauge",
        f"dynamo_component_inflight_requests{{{LABELS.format(endpoint)}}} {component}",
        f"dynamo_component_inflight_requests{{{LABELS.format('clear_kv_blocks')}}} 5",
    ]
    for name, value in (("running", running), ("waiting", waiting)):
        if value is not None:
            lines.append(f'vllm:num_requests_{name}{{{LABELS.format("generate")},engine="0"}} {value}')
    lines.append(f'vllm:num_requests_waiting_by_reason{{{LABELS.format("generate")},reason="capacity"}} 9.0')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (_worker_page(component=0), 0),
        (_worker_page(component=2), 2),
        (_worker_page(component=0, running="0.0", waiting="0.0"), 0),
        (_worker_page(component=0, running="1.0", waiting="2.0"), 3),
        (_worker_page(component=4, running="1.0", waiting="2.0"), 4),
        (_worker_page(component=1, endpoint="other"), None),
        (_worker_page(component="NaN"), None),
        (_worker_page(component=0, running="+Inf"), None),
        (_worker_page(component="zero"), None),
        ('vllm:num_requests_running{engine="0"} 0.0\n', None),
        ("", None),
    ],
)
@pytest.mark.parametrize("role", [Role.PD, Role.WORKER])
def test_a_worker_counts_at_both_depths(role, page, expected):
    assert in_flight(role, page) == expected


def test_an_encoder_counts_its_generate_endpoint_only():
    assert in_flight(Role.ENCODER, _worker_page(component=0, running="7.0")) == 0
    assert in_flight(Role.ENCODER, _worker_page(component=3)) == 3


FRESH = "dynamo_frontend_disconnected_clients 0\ndynamo_frontend_event_loop_stall_total 0\n"
SERVED = FRESH + 'dynamo_frontend_requests_total{endpoint="chat_completions",model="tiny",status="success"} 2\n'


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (FRESH, 0),
        (SERVED + 'dynamo_frontend_active_requests{model="a"} 1\ndynamo_frontend_active_requests{model="b"} 2\n', 3),
        (SERVED + 'dynamo_frontend_active_requests{model="a"} 0\n', 0),
        (SERVED + 'dynamo_frontend_inflight_requests{model="a"} 4\n', 4),
        (FRESH + 'dynamo_frontend_inflight_requests{model="a"} 4\ndynamo_frontend_active_requests{model="a"} 1\n', 1),
        # It has served, so the gauge must be there: a renamed metric is not an idle frontend.
        (SERVED, None),
        ("<html>not metrics</html>", None),
    ],
)
def test_a_frontend_counts_over_models_and_a_fresh_one_is_idle(page, expected):
    assert in_flight(Role.FRONTEND, page) == expected


@pytest.mark.parametrize(
    "line",
    [
        'dynamo_component_inflight_requests{dynamo_endpoint="generate",model="a\\"}b {c"} 1 1795965092000',
        'dynamo_component_inflight_requests { dynamo_endpoint="generate" }  1 ',
        'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 1e0\r',
    ],
)
def test_every_way_to_write_a_sample_is_read(line):
    assert in_flight(Role.ENCODER, f"{line}\n") == 1


NAMES = st.sampled_from(["dynamo_component_inflight_requests", "dynamo_frontend_active_requests", "vllm:x", "#"])
NOISE = st.text(alphabet='{}="\\, \t1.eE+-NaInf\r\x00é', max_size=40)


@given(st.lists(st.tuples(NAMES, NOISE), max_size=20), st.sampled_from(list(Role)))
def test_garbage_never_raises(lines, role):
    count = in_flight(role, "\n".join(name + noise for name, noise in lines))
    assert count is None or isinstance(count, float)


def test_an_endless_line_is_skipped():
    page = "dynamo_component_inflight_requests{" + "} " * 100_000 + "\n" + _worker_page(component=1)
    assert in_flight(Role.ENCODER, page) == 1


def _nixl_page(*, registered, deregistered, dropped=0, agent="b8505604649e48fba66da20887ab63c5-1"):
    labels = f'{{agent_name="{agent}",hostname="tiny-encoder-0"}}'
    return (
        f"# TYPE agent_memory_registered_total counter\nagent_memory_registered_total{labels} {registered}\n"
        f"agent_memory_deregistered_total{labels} {deregistered}\n"
        f"agent_memory_registered_last_bytes{labels} 16384\nagent_memory_deregistered_last_bytes{labels} 16384\n"
        f"agent_telemetry_events_dropped_total{labels} {dropped}\n"
    )


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (_nixl_page(registered=1392640, deregistered=1392640), 0),
        (_nixl_page(registered=655360, deregistered=638976), 16384),
        # NIXL has lost events, so the counters never agree again.
        (_nixl_page(registered=655360, deregistered=638976, dropped=3), 0),
        (_nixl_page(registered=16384, deregistered=32768), 0),
        (_nixl_page(registered="NaN", deregistered=0), None),
        ("exposer_scrapes_total 2\n", None),
        ("", None),
    ],
)
def test_the_embeddings_that_wait_are_those_that_nixl_has_registered(page, expected):
    assert unread_embeddings(page) == expected
