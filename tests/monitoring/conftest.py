"""A fleet that a real Prometheus has scraped twice, with requests in between."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitoring.charted import render
from monitoring.prometheus import Prometheus
from monitoring.world import SYSTEM, Fleet
from support.apiserver import ApiServer
from support.fixtures import bare_api_server

__all__ = ["bare_api_server"]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "monitoring.md"
OBJECTIVES = [
    {"namespace": "shop", "deployment": "qwen", "timeToFirstTokenSeconds": 3600, "interTokenLatencySeconds": 3600}
]


@pytest.fixture(scope="session")
def plain_config() -> dict[str, Any]:
    """The scrape configuration that the guide shows for clusters without prometheus-operator."""
    (block,) = [
        text for text in re.findall(r"^```yml\n(.*?)^```$", GUIDE.read_text(), re.M | re.S) if "job_name" in text
    ]
    return dict(yaml.safe_load(block))


@pytest.fixture(scope="session")
def fleet(bare_api_server: ApiServer) -> Iterator[Fleet]:
    """Pods with metrics pages."""
    with Fleet(bare_api_server) as made:
        yield made


@pytest.fixture(scope="session")
def rendered() -> list[dict[str, Any]]:
    """All objects that the chart renders for monitoring."""
    rules = {"enabled": True, "objectives": OBJECTIVES}
    switches = {"podMonitors": {"enabled": True}, "rules": rules, "dashboards": {"enabled": True}}
    return render({"monitoring": switches}, namespace=SYSTEM)


@pytest.fixture(scope="session")
def prometheus(
    fleet: Fleet,
    rendered: list[dict[str, Any]],
    plain_config: dict[str, Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Prometheus]:
    """The guide's configuration against the fleet's API server, with the chart's rules."""
    folder = tmp_path_factory.mktemp("prometheus")
    (rule,) = [document for document in rendered if document["kind"] == "PrometheusRule"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    client = fleet.server.client
    access = {
        "api_server": client.url,
        "authorization": {"credentials": client.token},
        "tls_config": {"ca_file": str(client.ca_file)},
    }
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        **plain_config,
    }
    for job in config["scrape_configs"]:
        job["kubernetes_sd_configs"] = [{**discovery, **access} for discovery in job["kubernetes_sd_configs"]]
    with Prometheus(folder, config) as server:
        _send_traffic(server, fleet)
        yield server


def _send_traffic(server: Prometheus, fleet: Fleet) -> None:
    """Wait until the early pages, and then those with more requests, are scraped and the rules are evaluated."""
    pages = sum(len(pod.pages) for pod in fleet.pods())
    # The aggregated worker has no page of NIXL.
    server.wait_for("all pages scraped", lambda: server.value("sum(up)") == pages)
    fleet.moment = "busy"
    fleet.operator.work()
    moved = time.time()
    server.wait_for("all pages scraped again", lambda: min(server.values("timestamp(up)")) > moved)
    server.wait_for("latencies recorded", lambda: bool(server.values("epd:time_to_first_token_seconds:p95_5m")))
