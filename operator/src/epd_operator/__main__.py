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
    """The URL of a server, or an empty text.

    Raises:
        ArgumentTypeError: the URL is invalid, or contains credentials.
    """
    if not text:
        return ""
    # The error does not repeat the URL, because errors are logged.
    if "@" in text:
        raise argparse.ArgumentTypeError(
            "the URL must not contain credentials: they could be read by all users that can view the pod"
        )
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise argparse.ArgumentTypeError(
            "invalid URL: use for example http://prometheus.monitoring:9090 or https://host/path"
        )
    return text


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="epd-operator", description="Operator for EPDDeployments.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="namespace to watch; can be given more than once (default: all namespaces)",
    )
    parser.add_argument("--workers", type=int, default=4, help="maximum number of concurrent reconciles (default: 4)")
    parser.add_argument("--metrics-port", type=int, default=8080, help="port of /metrics (default: 8080)")
    parser.add_argument("--health-port", type=int, default=8081, help="port of /healthz and /readyz (default: 8081)")
    parser.add_argument("--log-level", choices=["DEBUG", "INFO", "WARNING"], default="INFO")
    parser.add_argument(
        "--prometheus-url",
        type=server_url,
        default="",
        metavar="URL",
        help="URL of the Prometheus server for objects with scaling.metricsSource Prometheus (default: none)",
    )
    parser.add_argument(
        "--worker-role",
        default=WORKER_ROLE,
        metavar="NAME",
        help=f"ClusterRole of the worker pods, bound for each EPDDeployment (default: {WORKER_ROLE})",
    )
    parser.add_argument(
        "--check-nodes",
        action="store_true",
        help="compare the nodes of the cluster with the needs of pods; needs the right to list nodes and "
        "runtimeclasses (default: no comparison)",
    )
    _add_election_options(parser)
    parsed = parser.parse_args(arguments)
    if parsed.leader_election and not parsed.lease_namespace:
        parser.error("--leader-election outside a cluster needs --lease-namespace")
    return Options(
        namespaces=tuple(parsed.namespace),
        workers=parsed.workers,
        metrics_port=parsed.metrics_port,
        health_port=parsed.health_port,
        log_level=parsed.log_level,
        prometheus_url=parsed.prometheus_url,
        worker_role=parsed.worker_role,
        check_nodes=parsed.check_nodes,
        leader_election=parsed.leader_election,
        lease_name=parsed.lease_name,
        lease_namespace=parsed.lease_namespace,
    )


def _add_election_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--leader-election",
        action="store_true",
        help="reconcile only while holding a Lease, so that more than one replica can run (default: no election)",
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
    """Raise the limit of open files: kopf opens a connection per namespace and kind, and the usual limit is 1,024."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


if __name__ == "__main__":
    logging.captureWarnings(True)
    allow_many_connections()
    code = run(parse(), jitter=random.random, suffix=uuid.uuid4().hex[:8])
    logging.shutdown()
    # A normal exit would wait for all tasks, and tasks of kopf that lost their watch may never end.
    os._exit(code)
