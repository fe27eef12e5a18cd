"""The program of a container that only provides the identity (name) for Dynamo discovery.

Dynamo's discovery identifies workers by container name, so a co-located pod has one container per process, while the
processes themselves run under the launcher in the container that owns the GPU. The stub only keeps its container
running; the probes and the preStop hook of the container use the port of the launcher, which all containers of a pod
share.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

USAGE = "usage: python3 -m epd_worker stub --name NAME"


def _exit(_signum: int, _frame: FrameType | None) -> None:
    os._exit(0)


def run_stub(arguments: list[str]) -> int:
    """Sleep until SIGTERM or SIGINT, then exit with 0 at once; return 2 for invalid arguments."""
    if len(arguments) != 2 or arguments[0] != "--name" or not arguments[1]:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    # As process 1 the stub inherits orphans (of preStop hooks): with SIG_IGN the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.write(
        f"epd_worker: {arguments[1]} runs under the launcher of this pod, in another container: see its log\n"
    )
    sys.stdout.flush()
    while True:
        signal.pause()
