"""Entry point: `python3 -m epd_worker COMMAND …`."""

from __future__ import annotations

import signal
import sys

from epd_worker import STOP_SIGNALS


def main() -> int:
    """Run the command named on the command line and return its exit code."""
    if sys.argv[1:2] == ["stub"]:
        # A pod has one stub per encoder, as long as it runs: to save memory, a stub loads no asyncio and no argparse.
        from epd_worker.stub import run_stub  # noqa: PLC0415

        return run_stub(sys.argv[2:])
    if sys.argv[1:2] in (["run"], ["run-group"]):
        # The kernel drops signals to process 1 without a handler. A blocked signal stays pending until there is one.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    from epd_worker.cli import run  # noqa: PLC0415

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
