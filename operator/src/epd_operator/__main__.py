"""``python -m epd_operator``: run the operator."""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Sequence
from urllib.parse import urlsplit

from epd_operator import __version__
from epd_operator.assembly import Options, run
from epd_operator.plan.settings import WORKER_ROLE


def server_url(text: str) -> str:
    """The address of a server, or nothing.

    Raises:
        ArgumentTypeError: it is none that the operator can ask.
    """
    if not text:
        return ""
    if "@" in text:
        # Not repeated: it goes to the log.
        raise argparse.ArgumentTypeError("credentials do not belong into the address: whoever sees the pod reads them")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is not like http://prometheus.monitoring:9090 or https://host/path")
    return text


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Options of the command line."""
    parser = argparse.ArgumentParser(prog="epd-operator", description="Operator for EPDDeployments.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="watch only this namespace; may be repeated (default: all namespaces)",
    )
    parser.add_argument("--workers", type=int, default=4, help="passes at the same time (default: 4)")
    parser.add_argument("--metrics-port", type=int, default=8080, help="port of /metrics (default: 8080)")
    parser.add_argument("--health-port", type=int, default=8081, help="port of /healthz (default: 8081)")
    parser.add_argument("--log-level", choices=["DEBUG", "INFO", "WARNING"], default="INFO")
    parser.add_argument(
        "--prometheus-url",
        type=server_url,
        default="",
        metavar="URL",
        help="Prometheus server for objects with scaling.metricsSource Prometheus (default: none)",
    )
    parser.add_argument(
        "--worker-role",
        default=WORKER_ROLE,
        metavar="NAME",
        help=f"ClusterRole with the rights of worker pods, bound for each EPDDeployment (default: {WORKER_ROLE})",
    )
    given = parser.parse_args(arguments)
    return Options(
        namespaces=tuple(given.namespace),
        workers=given.workers,
        metrics_port=given.metrics_port,
        health_port=given.health_port,
        log_level=given.log_level,
        prometheus_url=given.prometheus_url,
        worker_role=given.worker_role,
    )


if __name__ == "__main__":
    logging.captureWarnings(True)
    run(parse(), jitter=random.random)
