"""``python -m epd_operator``: run the operator."""

from __future__ import annotations

import argparse
import logging
import random
from collections.abc import Sequence

from epd_operator import __version__
from epd_operator.runtime.assembly import Options, run


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
    given = parser.parse_args(arguments)
    return Options(
        namespaces=tuple(given.namespace),
        workers=given.workers,
        metrics_port=given.metrics_port,
        health_port=given.health_port,
        log_level=given.log_level,
    )


if __name__ == "__main__":
    logging.captureWarnings(True)
    run(parse(), jitter=random.random)
