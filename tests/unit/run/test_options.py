"""The command line of the operator, and the options that the chart passes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from epd_operator.__main__ import parse
from epd_operator.run import Options

CHART = Path(__file__).parents[3] / "charts" / "epd-operator"
GOOD_URLS = ["http://prometheus.monitoring:9090", "https://metrics.example/prometheus/", "http://[fd00::1]:9090"]
BAD_URLS = ["prometheus:9090", "file:///etc/passwd", "http://", "http://host:x", "http://host/?query=up", "http://a#b"]


def chart_accepts(url: str) -> bool:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["prometheusUrl"]
    return jsonschema.Draft7Validator(schema).is_valid(url)


def test_without_options_the_defaults_apply_and_no_prometheus_is_configured() -> None:
    assert parse([]) == Options()
    assert parse([]).prometheus_url == ""
    assert parse(["--prometheus-url="]).prometheus_url == ""


@pytest.mark.parametrize("url", GOOD_URLS)
def test_a_valid_prometheus_url_is_accepted(url: str) -> None:
    assert parse([f"--prometheus-url={url}"]).prometheus_url == url
    assert chart_accepts(url)


@pytest.mark.parametrize("url", BAD_URLS)
def test_an_invalid_prometheus_url_is_refused_with_an_example(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse([f"--prometheus-url={url}"])
    assert "use for example http://prometheus.monitoring:9090" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://me:hunter2@host", "http://me:hunter2@host/?query=up", "me:hunter2@host"])
def test_credentials_in_the_prometheus_url_are_refused_and_not_printed(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse([f"--prometheus-url={url}"])
    shown = capsys.readouterr().err
    assert "must not contain credentials" in shown
    assert "hunter2" not in shown
    assert not chart_accepts(url)


def test_the_chart_configures_no_prometheus_by_default() -> None:
    assert re.search(r'^prometheusUrl: ""$', (CHART / "values.yaml").read_text(), re.MULTILINE)
    assert chart_accepts("")


def test_an_election_needs_a_namespace_for_its_lease(capsys: pytest.CaptureFixture[str]) -> None:
    options = parse(["--leader-election", "--lease-namespace=epd-system"])
    assert (options.leader_election, options.lease_name, options.lease_namespace) == (
        True,
        "epd-operator",
        "epd-system",
    )
    assert not parse([]).leader_election
    with pytest.raises(SystemExit):
        parse(["--leader-election"])
    assert "--lease-namespace" in capsys.readouterr().err


def test_the_operator_accepts_every_option_that_the_chart_passes() -> None:
    passed = re.findall(r"(--[a-z-]+)=", (CHART / "templates" / "deployment.yaml").read_text())
    assert "--prometheus-url" in passed
    values = {
        "--worker-role": "r",
        "--workers": "2",
        "--log-level": "DEBUG",
        "--namespace": "a",
        "--lease-name": "l",
        "--lease-namespace": "n",
        "--prometheus-url": GOOD_URLS[0],
    }
    options = parse([f"{name}={values[name]}" for name in passed])
    assert options == Options(
        worker_role="r",
        namespaces=("a",),
        workers=2,
        log_level="DEBUG",
        prometheus_url=GOOD_URLS[0],
        lease_name="l",
        lease_namespace="n",
    )
    assert "- --leader-election\n" in (CHART / "templates" / "deployment.yaml").read_text()
