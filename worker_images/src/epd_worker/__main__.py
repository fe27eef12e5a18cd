"""Entry point: `python3 -m epd_worker COMMAND …`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command named on the command line and return its exit code."""
    if sys.argv[1:2] == ["stub"]:
        # A stub lives as long as its pod, once per encoder: it must not load asyncio and argparse.
        from epd_worker.stub import run_stub  # noqa: PLC0415

        return run_stub(sys.argv[2:])
    from epd_worker.cli import run  # noqa: PLC0415

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
