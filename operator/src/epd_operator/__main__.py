"""``python -m epd_operator``: run the operator."""

from __future__ import annotations

import argparse
import logging
import os
import random
import resource
import uuid
from collections.abc import Sequence
from urllib.parse import urlsplit

from epd_operator import __version__
from epd_operator.cluster.client import own_namespace
from epd_operator.plan.children.child_kind import WORKER_ROLE
from epd_operator.run import LEASE_NAME, Options, run


def server_url(text: str) -> str:
    """The address of a server, or nothing.

    Raises:
        ArgumentTypeError: it is none that the operator can ask.
    """
    if not text:
        return ""
    # Never repeated: it goes to the log.
    if "@" in text:
        raise argparse.ArgumentTypeError("credentials do not belong into the address: whoever sees the pod reads them")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError("it is not like http://prometheus.monitoring:9090 or https://host/path")
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
    parser.add_argument("--health-port", type=int, default=8081, help="port of /healthz and /readyz (default: 8081)")
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
    _add_election(parser)
    given = parser.parse_args(arguments)
    if given.leader_election and not given.lease_namespace:
        parser.error("--leader-election needs --lease-namespace outside a cluster")
    return Options(
        namespaces=tuple(given.namespace),
        workers=given.workers,
        metrics_port=given.metrics_port,
        health_port=given.health_port,
        log_level=given.log_level,
        prometheus_url=given.prometheus_url,
        worker_role=given.worker_role,
        leader_election=given.leader_election,
        lease_name=given.lease_name,
        lease_namespace=given.lease_namespace,
    )


def _add_election(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--leader-election",
        action="store_true",
        help="work only while holding a Lease, so that several replicas may run (default: always work)",
    )
    parser.add_argument(
        "--lease-name", default=LEASE_NAME, metavar="NAME", help=f"name of the Lease (default: {LEASE_NAME})"
    )
    parser.add_argument(
        "--lease-namespace",
        default=own_namespace() or "",
        metavar="NAME",
        help="namespace of the Lease (default: the namespace of the pod)",
    )


def allow_many_connections() -> None:
    """Each namespace takes a connection for each kind; container runtimes begin with 1,024 files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    logging.captureWarnings(True)
    allow_many_connections()
    code = run(parse(), jitter=random.random, suffix=uuid.uuid4().hex[:8])
    logging.shutdown()
    # Nothing is left to do, but tasks of kopf that lost their watch may never end.
    os._exit(code)
