"""Progress of long steps on stderr: the step, its duration so far, and its usual duration."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from epd_local.errors import CommandFailedError

HEARTBEAT_SECONDS = 10.0


def say(line: str) -> None:
    """Print one line for the user on stderr; stdout is for results."""
    print(f"[epd] {line}", file=sys.stderr, flush=True)


@contextmanager
def step(what: str, *, usually: str) -> Iterator[None]:
    """Report the start of a step, its duration every few seconds, and its end."""
    began = time.monotonic()
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_SECONDS):
            say(f"{what}: {time.monotonic() - began:.0f} s so far (usually {usually})")

    say(f"{what} (usually {usually})")
    heart = threading.Thread(target=beat, daemon=True)
    heart.start()
    try:
        yield
    finally:
        over.set()
        heart.join()
    say(f"{what}: done in {time.monotonic() - began:.1f} s")


def call(
    command: Sequence[object],
    *,
    what: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    pass_descriptors: Sequence[int] = (),
) -> str:
    """Run *command* and return its standard output.

    Raises:
        CommandFailedError: it ended with an error; the message has the end of its output.
    """
    done = subprocess.run(
        [str(word) for word in command],
        env=dict(environment) if environment is not None else None,
        cwd=cwd,
        input=stdin,
        pass_fds=tuple(pass_descriptors),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandFailedError(what, code=done.returncode, output=done.stdout + done.stderr)
    return done.stdout


def wait_until(condition: Callable[[], bool], *, seconds: float, interval: float = 0.1) -> bool:
    """Check *condition* every *interval* seconds; return whether it became true within *seconds*."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(interval)
    return True
