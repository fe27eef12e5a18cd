"""Entry point: `python3 -m epd_worker COMMAND …`."""

from __future__ import annotations

import signal
import sys

from epd_worker import STOP_SIGNALS


def main() -> int:
    """Run the command named on the command line and return its exit code."""
    if sys.argv[1:2] == ["stub"]:
        # A stub lives as long as its pod, once per encoder: it must not load asyncio and argparse.
        from epd_worker.stub import run_stub  # noqa: PLC0415

        return run_stub(sys.argv[2:])
    if sys.argv[1:2] in (["run"], ["run-group"]):
        # Process 1 of a container loses a signal that it has no handler for. Blocked, it waits for the launcher's.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    from epd_worker.cli import run  # noqa: PLC0415

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
