"""The placeholder for a process that runs in another container of the pod.

Dynamo's discovery knows workers by container name, so a co-located pod has a container per process, while the
processes themselves run under the launcher in the container that owns the GPU. The stub only keeps its container
alive; the container's probes and its preStop hook ask the launcher, which listens in the shared network namespace.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

USAGE = "usage: python3 -m epd_worker stub --name NAME"


def _leave(_signum: int, _frame: FrameType | None) -> None:
    os._exit(0)


def run_stub(arguments: list[str]) -> int:
    """Sleep until SIGTERM or SIGINT, then leave with 0 at once; 2 when the arguments are wrong."""
    if len(arguments) != 2 or arguments[0] != "--name" or not arguments[1]:
        sys.stderr.write(f"{USAGE}\n")
        return 2
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    # As process 1 the stub inherits orphans (of exec'd hooks): with SIG_IGN the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.write(f"epd_worker: {arguments[1]} runs under the launcher of this pod; see that container's log\n")
    sys.stdout.flush()
    while True:
        signal.pause()
