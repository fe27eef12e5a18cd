"""Threads that poll without a pause, found by what the kernel says about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_local.cluster import polling


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tmp_path / "proc"


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    folder = tmp_path / "polling"
    folder.mkdir()
    (folder / "tasks").write_text("")
    return folder


def add_thread(proc: Path, number: int, *, seconds: float, waits: int, process: int = 7) -> Path:
    task = proc / str(process) / "task" / str(number)
    task.mkdir(parents=True)
    ticks = int(seconds * 100)
    (task / "stat").write_text(
        f"{number} (a name) with ) R 1 1 1 0 -1 4 0 0 0 0 {ticks // 4} {ticks - ticks // 4} 0 0\n"
    )
    (task / "status").write_text(f"Name:\tpython3\nvoluntary_ctxt_switches:\t{waits}\nnonvoluntary_ctxt_switches:\t9\n")
    return task


def test_a_thread_that_has_used_time_and_never_waited_is_moved(proc: Path, cgroup: Path):
    add_thread(proc, 9, seconds=3, waits=0)
    polling.move_polling_threads(cgroup, proc=proc)
    assert (cgroup / "tasks").read_text() == "9"


@pytest.mark.parametrize(("seconds", "waits"), [(3, 1), (3, 10), (0.5, 0)])
def test_a_thread_that_waits_or_has_just_begun_stays(proc: Path, cgroup: Path, seconds: float, waits: int):
    add_thread(proc, 9, seconds=seconds, waits=waits)
    polling.move_polling_threads(cgroup, proc=proc)
    assert (cgroup / "tasks").read_text() == ""


def test_the_first_thread_of_a_process_stays(proc: Path, cgroup: Path):
    add_thread(proc, 7, seconds=3, waits=0)
    polling.move_polling_threads(cgroup, proc=proc)
    assert (cgroup / "tasks").read_text() == ""


def test_a_thread_that_ends_meanwhile_does_not_stop_the_search(proc: Path, cgroup: Path):
    (add_thread(proc, 8, seconds=3, waits=0) / "status").unlink()
    add_thread(proc, 9, seconds=3, waits=0)
    polling.move_polling_threads(cgroup, proc=proc)
    assert (cgroup / "tasks").read_text() == "9"


def test_without_cgroups_of_version_1_nothing_is_done(tmp_path: Path):
    polling.start("/cluster/cpu-0", roots=(tmp_path,))
    assert not list(tmp_path.iterdir())
