"""A process that was ready and no longer answers is ended: the count in virtual time, and real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_worker.fetch import FetchedPage, PageError, PageTimeoutError
from epd_worker.health import POLL_TIMEOUT, Check, ProcessHealth, watch
from epd_worker.silence import Silence
from epd_worker.spec import ProcessSpec, Role

REFUSED, SLOW = PageError("cannot read it: Connection refused"), PageTimeoutError("no answer within 2 s")
PROCESS = ProcessSpec(name="m", role=Role.WORKER, command=(), health_url="http://h", metrics_url="http://m")
OK, NOT_READY = FetchedPage(200, b""), FetchedPage(503, b"")
NOT_YET, READY = ProcessHealth(), ProcessHealth(healthy=True, ever=True, reason="")


class EndOfPlanError(Exception):
    """Ends the loop of checks."""


class Simulation:
    """Checks in virtual time. `plan` has (until second, answer); `frozen` is when the launcher itself does not run."""

    def __init__(self, *plan, frozen=(0.0, 0.0)):
        self.now, self.plan, self.frozen = 0.0, plan, frozen
        self.silence, self.longest = Silence(), 0.0

    def clock(self):
        return self.now

    def _pass(self, seconds):
        self.now += seconds
        begin, end = self.frozen
        if begin <= self.now < end:
            self.now = end

    async def sleep(self, seconds):
        self._pass(seconds)

    async def fetch(self, _url):
        answer = next((answer for until, answer in self.plan if self.now < until), None)
        if answer is None:
            raise EndOfPlanError
        self._pass(POLL_TIMEOUT if answer is SLOW else 0.01)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def on_check(self, check):
        self.silence = self.silence.after(check)
        self.longest = max(self.longest, self.silence.seconds)

    def run(self):
        with pytest.raises(EndOfPlanError):
            asyncio.run(watch(PROCESS, self.on_check, fetch_page=self.fetch, clock=self.clock, sleep=self.sleep))
        return self


@pytest.mark.parametrize("answer", [REFUSED, SLOW, NOT_READY], ids=["refused", "no answer in time", "HTTP 503"])
def test_each_kind_of_missing_answer_is_counted_from_the_last_healthy_one(answer):
    assert Simulation((100, OK), (400, answer)).run().silence.seconds == pytest.approx(300, abs=12)


def test_a_single_healthy_answer_ends_the_silence():
    simulation = Simulation((100, OK), (300, REFUSED), (302, OK), (400, REFUSED)).run()
    assert simulation.silence.seconds == pytest.approx(98, abs=3)
    assert simulation.longest == pytest.approx(200, abs=3)


def test_a_process_that_is_starting_is_never_silent():
    assert Simulation((4000, REFUSED), (9000, NOT_READY), (9100, SLOW)).run().longest == 0


@pytest.mark.parametrize("at", [100.0, 100.5, 101.9])
@pytest.mark.parametrize("answer", [OK, SLOW])
def test_time_in_which_the_launcher_itself_does_not_run_is_not_counted(answer, at):
    # The pod is stopped for an hour. Then the process needs some seconds, too.
    simulation = Simulation((99, OK), (3705, answer), (3800, OK), frozen=(at, 3700.0)).run()
    assert simulation.longest < 15
    assert simulation.silence.seconds == 0


@given(st.lists(st.tuples(st.sampled_from([NOT_YET, READY]), st.floats(3.1, 1e6)), min_size=1))
def test_a_launcher_that_is_always_late_never_counts(checks):
    silence = Silence()
    for health, took in checks:
        silence = silence.after(Check(health=health, paused=1.0, took=took))
    assert silence == Silence()


STACKS = ("Fatal Python error: Aborted", "most recent call first")


def _hang(get, fake):
    assert get(fake.port, "/set?health=hang")[0] == 200


def test_a_process_that_does_not_answer_is_ended_with_the_reason_and_its_stacks(workbench, engine, get, alive):
    fake = engine()
    launcher = workbench.run(fake, "--hang-timeout", "3")
    launcher.wait_ready()
    pid = launcher.pid()
    _hang(get, fake)
    assert launcher.wait() == 124
    assert not alive(pid)
    assert launcher.message().startswith("process main was ended after ")
    assert f"last answer: no answer from {fake.health_url} within 2 s;" in launcher.message()
    assert all(text in launcher.output() for text in STACKS)


def test_a_stopped_process_is_ended_without_stacks(workbench, engine, alive):
    launcher = workbench.run(engine(), "--hang-timeout", "3")
    launcher.wait_ready()
    pid = launcher.pid()
    os.kill(pid, signal.SIGSTOP)
    assert launcher.wait() == 124
    assert not alive(pid)
    assert launcher.message().startswith("process main was ended after ")
    assert STACKS[0] not in launcher.output()


def test_a_lasting_error_answer_ends_the_whole_group(workbench, engine, alive):
    encoder, pd = engine("encoder-0", "encoder"), engine("pd", "pd")
    launcher = workbench.launch("--hang-timeout", "3", group={"processes": [encoder.process(), pd.process()]})
    launcher.wait_ready("pd")
    pids = [launcher.pid("encoder-0"), launcher.pid("pd")]
    encoder.set(health="503")
    assert launcher.wait() == 124
    assert launcher.message().startswith("process encoder-0 was ended after ")
    assert "last answer: its health page returned HTTP 503" in launcher.message()
    assert not any(alive(pid) for pid in pids)


def test_the_stacks_of_child_processes_are_printed_too_because_the_engine_is_one(workbench, engine, get):
    fake = engine()
    child = "import time\ndef wait_for_the_gpu(): time.sleep(600)\nprint('up', flush=True)\nwait_for_the_gpu()"
    script = "import subprocess, sys, runpy; p = subprocess.Popen([sys.executable, '-c', sys.argv.pop(1)]); "
    script += "runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    urls = ["--role", "worker", "--health-url", fake.health_url, "--metrics-url", fake.metrics_url]
    program, engine_file, *options = fake.command
    command = [program, "-c", script, child, engine_file, *options]
    launcher = workbench.launch(*urls, "--hang-timeout", "3", command=command)
    launcher.wait_ready()
    _hang(get, fake)
    assert launcher.wait() == 124
    assert "wait_for_the_gpu" in launcher.output()


def _seconds_of_checks(launcher, get, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert launcher.popen.poll() is None, launcher.output()
        time.sleep(0.2)


def test_nothing_is_ended_without_a_limit_while_starting_or_during_a_drain(workbench, engine, get, eventually):
    unlimited, starting, draining = engine(), engine("main", "worker", "--health", "503"), engine("main", "pd")
    launchers = [
        workbench.run(unlimited, "--hang-timeout", "0"),
        workbench.run(starting, "--hang-timeout", "2"),
        workbench.run(draining, "--hang-timeout", "2", "--settle", "600"),
    ]
    launchers[0].wait_ready()
    launchers[2].wait_ready()
    workbench.hook(launchers[2])
    eventually(lambda: launchers[2].status()["state"] == "draining", "the drain begins")
    _hang(get, unlimited)
    _hang(get, draining)
    # Long enough for the limit: none of them may end, however slow this machine is.
    _seconds_of_checks(launchers[1], get, 8)
    assert [launcher.popen.poll() for launcher in launchers] == [None, None, None]


def test_a_launcher_that_was_stopped_together_with_its_process_ends_nothing_when_both_continue(workbench, engine):
    launcher = workbench.run(engine(), "--hang-timeout", "6")
    launcher.wait_ready()
    pids = [launcher.popen.pid, launcher.pid()]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(8)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    launcher.wait_ready()
    assert launcher.terminate() == 0
