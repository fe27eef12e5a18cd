"""Ports, defaults and times of the operator and the launcher are equal or compatible."""

from __future__ import annotations

import re
from pathlib import Path

from epd_operator.api.v1alpha1.epddeployment import Drain, Runtime
from epd_operator.plan.pods.launcher import CONTROL_PORT, DRAIN_SETTLE_SECONDS
from epd_worker import drain, hook
from epd_worker.spec import LaunchSpec
from unit.contracts import rendered

DEFAULTS = LaunchSpec(processes=())
PAGE = Path(__file__).parents[3] / "docs" / "worker-launcher.md"
HOOK_RETURNS_SECONDS = 5
"""Reserve in the grace period, for the last reading of metrics and for the start and end of the hook."""


def longest_drain() -> int:
    """The largest drain.timeoutSeconds that the API allows."""
    return next(int(limit.le) for limit in Drain.model_fields["timeout_seconds"].metadata if hasattr(limit, "le"))


def test_the_control_port_is_the_same_by_default() -> None:
    assert DEFAULTS.control_port == CONTROL_PORT


def test_the_settle_time_is_the_same_by_default() -> None:
    assert DEFAULTS.settle == DRAIN_SETTLE_SECONDS


def test_the_drain_timeout_is_the_same_by_default() -> None:
    assert DEFAULTS.drain_timeout == Drain().timeout_seconds


def test_the_time_without_an_answer_is_the_same_by_default() -> None:
    assert Runtime(image="example.test/epd:1").hang_timeout_seconds == DEFAULTS.hang_timeout


def test_the_launcher_page_documents_the_defaults_of_its_options() -> None:
    rows = dict(re.findall(r"^\| `--([a-z-]+)` \| ([0-9]+)(?: s)? \|", PAGE.read_text(), flags=re.MULTILINE))
    assert {name: float(value) for name, value in rows.items()} == {
        "control-port": DEFAULTS.control_port,
        "drain-timeout": DEFAULTS.drain_timeout,
        "settle": DEFAULTS.settle,
        "stop-timeout": DEFAULTS.stop_timeout,
        "hang-timeout": DEFAULTS.hang_timeout,
    }


def test_the_hook_waits_longer_than_the_longest_drain_that_the_api_allows() -> None:
    assert longest_drain() < hook.PATIENCE_SECONDS


def test_the_grace_period_covers_drain_and_stop() -> None:
    for seconds in (1, Drain().timeout_seconds, longest_drain()):
        for _, template in rendered.all_templates(drain={"timeoutSeconds": seconds}):
            launch = rendered.parsed(rendered.containers(template)[-1])
            needed = launch.drain_timeout + launch.stop_timeout + HOOK_RETURNS_SECONDS
            assert template["spec"]["terminationGracePeriodSeconds"] >= needed


def test_an_idle_pod_is_drained_within_the_default_time_limit_stage_after_stage() -> None:
    of_a_stage = DRAIN_SETTLE_SECONDS + drain.ZEROS_NEEDED * drain.READ_INTERVAL
    assert len(drain.STAGES) * of_a_stage < Drain().timeout_seconds


def test_the_settle_time_covers_the_failed_probes_after_which_a_container_is_not_ready() -> None:
    for _, template in rendered.all_templates():
        for container in rendered.containers(template):
            probe = container["readinessProbe"]
            assert probe["periodSeconds"] * probe["failureThreshold"] < DRAIN_SETTLE_SECONDS
