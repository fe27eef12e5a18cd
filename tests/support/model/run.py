"""The long run of the model: `make rollout-model STEPS=20000`."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from support.model.machine import RolloutMachine

STEPS_OF_ONE_RUN = 50


def main() -> None:
    """Run until a number of steps has been made, or a run fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--no-shrink", action="store_true", help="report the first failing run as it is")
    arguments = parser.parse_args()
    phases = [Phase.generate] if arguments.no_shrink else [Phase.generate, Phase.shrink]
    counts: Counter[str] = RolloutMachine.counts
    started = time.monotonic()
    while counts["steps"] < arguments.steps:
        run_state_machine_as_test(
            RolloutMachine,
            settings=settings(
                max_examples=-(-(arguments.steps - counts["steps"]) // STEPS_OF_ONE_RUN),
                stateful_step_count=STEPS_OF_ONE_RUN,
                deadline=None,
                database=None,
                phases=phases,
                report_multiple_bugs=False,
                suppress_health_check=list(HealthCheck),
            ),
        )
    counted = ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))
    print(f"no invariant was violated: {counted}; {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
