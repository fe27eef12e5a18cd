"""``epdctl rollout status --watch`` in virtual time."""

from typing import Any

import pytest

from epd_operator.cluster.errors import ClusterError, NotFoundError, UnavailableError
from epdctl.rollout.follow import POLL_SECONDS, follow
from epdctl.rollout.session import CommandError

UNREACHABLE = UnavailableError("refused", request="GET x")


def seen(pods: str, *, reason: str = "PodsStarting", generation: int = 2) -> dict[str, Any]:
    ready = "True" if reason == "AllStagesReady" else "False"
    return {
        "metadata": {"generation": 2},
        "status": {
            "observedGeneration": generation,
            "revisions": [{"name": "8c1f2a", "state": "Starting", "summary": pods}],
            "conditions": [{"type": "Ready", "status": ready, "reason": reason, "message": "of the test"}],
        },
    }


DONE = seen("worker 2/2", reason="AllStagesReady")


class Run:
    """Follows given answers; the last is repeated."""

    def __init__(self, *answers: dict[str, Any] | Exception, timeout_seconds: float = 0) -> None:
        self._answers = list(answers)
        self._timeout_seconds = timeout_seconds
        self.seconds = 0.0
        self.lines: list[str] = []

    async def _read(self) -> dict[str, Any]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _sleep(self, seconds: float) -> None:
        self.seconds += seconds

    async def follow(self) -> list[str]:
        await follow(
            self._read,
            timeout_seconds=self._timeout_seconds,
            echo=self.lines.append,
            clock=lambda: self.seconds,
            sleep=self._sleep,
        )
        return self.lines


async def test_each_change_is_printed_once_until_the_rollout_is_complete() -> None:
    run = Run(seen("worker 0/2"), seen("worker 0/2"), seen("worker 1/2"), DONE)

    assert await run.follow() == [
        "revision 8c1f2a (Starting): worker 0/2",
        "waits for PodsStarting: of the test",
        "revision 8c1f2a (Starting): worker 1/2",
        "revision 8c1f2a (Starting): worker 2/2",
    ]
    assert run.seconds == 3 * POLL_SECONDS


async def test_the_status_of_an_earlier_spec_does_not_end_the_wait() -> None:
    run = Run(seen("worker 2/2", reason="AllStagesReady", generation=1), DONE)

    assert "the operator has not reported on the present spec yet" in (await run.follow())[1]


async def test_problems_that_may_pass_end_the_wait_when_the_time_is_over() -> None:
    run = Run(seen("worker 0/2", reason="RolloutBlocked"), timeout_seconds=60)

    with pytest.raises(CommandError, match="not complete after 60 s: RolloutBlocked: of the test"):
        await run.follow()
    assert run.seconds == 60


async def test_an_outage_of_the_api_server_does_not_end_the_wait_once_it_has_answered() -> None:
    run = Run(seen("worker 0/2"), UNREACHABLE, UNREACHABLE, DONE)

    assert (await run.follow())[2] == "the API server does not answer, trying again: refused"
    assert len(run.lines) == 4


async def test_an_outage_ends_the_wait_when_the_time_is_over() -> None:
    with pytest.raises(CommandError, match="not complete after 9 s"):
        await Run(seen("worker 0/2"), UNREACHABLE, timeout_seconds=9).follow()


@pytest.mark.parametrize("answers", [(UNREACHABLE,), (seen("worker 0/2"), NotFoundError("gone", request="GET x"))])
async def test_a_first_answer_that_fails_and_a_deletion_end_the_wait(answers: tuple[Any, ...]) -> None:
    with pytest.raises(ClusterError):
        await Run(*answers).follow()
