"""Responses to the liveness and readiness probes."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

from prometheus_client import CollectorRegistry

from epd_operator.telemetry.health import LOOP_STUCK_SECONDS, STUCK_SECONDS, Health, HealthServer, export_health
from support.virtual import run_virtually


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_replica_is_alive_from_the_start_and_ready_after_a_response_of_the_api_server() -> None:
    health = Health(clock=Clock())
    port = HealthServer(health).start(0)
    assert get(port, "/healthz") == (200, "ok\n")
    assert get(port, "/readyz") == (503, "the API server has not answered successfully yet\n")
    for status in (0, 401, 403, 500, 503):
        health.answered(status)
        assert get(port, "/readyz")[0] == 503
    health.answered(404)
    assert get(port, "/readyz?verbose") == (200, "ok\n")
    assert get(port, "/other")[0] == 404


def test_a_stopping_replica_is_alive_but_not_ready() -> None:
    health = Health(clock=Clock())
    health.answered(200)
    health.stopping = True
    assert health.why_not_ready() == ["stopping"]
    assert health.why_dead() == []


def test_a_blocked_event_loop_is_reported_by_the_health_server_in_its_own_thread() -> None:
    clock = Clock()
    health = Health(clock=clock)
    port = HealthServer(health).start(0)
    clock.now += LOOP_STUCK_SECONDS
    assert get(port, "/healthz")[0] == 200
    clock.now += 1
    assert get(port, "/healthz") == (503, "the event loop has been blocked for 30 s\n")


def test_heartbeats_of_the_event_loop_keep_the_replica_alive() -> None:
    async def beat_for_a_while() -> float:
        loop = asyncio.get_running_loop()
        health = Health(clock=loop.time)
        beating = asyncio.create_task(health.beat())
        worst = 0.0
        for _ in range(1000):
            await asyncio.sleep(0.3)
            worst = max(worst, health.lag())
        beating.cancel()
        await asyncio.sleep(100)
        assert 90 < health.lag() < 101
        return worst

    assert run_virtually(beat_for_a_while()) == 0.0


def test_a_reconcile_that_never_ends_fails_the_liveness_probe() -> None:
    health = Health(clock=Clock())
    health.longest_reconcile = lambda: STUCK_SECONDS
    assert health.why_dead() == []
    health.longest_reconcile = lambda: STUCK_SECONDS + 1
    assert health.why_dead() == ["one reconcile has been running for 301 s"]


def test_leadership_and_lag_of_the_event_loop_are_computed_at_the_time_of_the_scrape() -> None:
    clock, registry, leads = Clock(), CollectorRegistry(), [False]
    export_health(Health(clock=clock), leads=lambda: leads[0], registry=registry)
    assert registry.get_sample_value("epd_operator_leader") == 0.0
    assert registry.get_sample_value("epd_operator_event_loop_lag_seconds") == 0.0
    leads[0] = True
    clock.now += 10.5
    assert registry.get_sample_value("epd_operator_leader") == 1.0
    assert registry.get_sample_value("epd_operator_event_loop_lag_seconds") == 10.0
