"""The launcher reports whether RDMA can lock memory, before an engine falls back to TCP."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from epd_worker import cli, locked_memory
from epd_worker.locked_memory import LockedMemory, allowed, problem, raise_limit, uses_rdma

MIB = 1024**2
NO_CAPABILITY = "0000000000000000"
IPC_LOCK = "0000000000004000"


def status(folder: Path, effective: str, bounding: str = NO_CAPABILITY) -> Path:
    file = folder / "status"
    file.write_text(f"Name:\tpython\nCapPrm:\t{effective}\nCapEff:\t{effective}\nCapBnd:\t{bounding}\n")
    return file


def limits(soft: int) -> tuple[int, int]:
    return soft, soft


@pytest.mark.parametrize(
    ("effective", "soft", "expected"),
    [
        (NO_CAPABILITY, 8 * MIB, 8 * MIB),
        (NO_CAPABILITY, resource.RLIM_INFINITY, None),
        (IPC_LOCK, 8 * MIB, None),
    ],
)
def test_the_limit_applies_unless_the_capability_is_effective(
    tmp_path: Path, effective: str, soft: int, expected: int | None
) -> None:
    found = allowed(status=status(tmp_path, effective), limits=lambda _: limits(soft))
    assert found.limit == expected


def test_a_capability_that_is_only_in_the_bounding_set_does_not_count(tmp_path: Path) -> None:
    """So it is for user 1000, whatever securityContext.capabilities says."""
    found = allowed(status=status(tmp_path, NO_CAPABILITY, bounding=IPC_LOCK), limits=lambda _: limits(64 * 1024))
    assert found.limit == 64 * 1024


def test_it_reads_the_capabilities_and_the_limit_of_a_real_process() -> None:
    raise_limit()
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    assert soft == hard
    assert allowed().limit in (None, soft)


@pytest.mark.parametrize(
    ("transports", "device", "expected"),
    [
        ("rc,tcp,self", True, True),
        ("rc_mlx5,self", True, True),
        ("all", True, True),
        ("tcp,cuda_copy,self,sm", True, False),
        ("rc,tcp", False, False),
    ],
)
def test_rdma_is_used_with_a_device_and_a_transport_for_it(
    tmp_path: Path, transports: str, device: bool, expected: bool
) -> None:
    if device:
        (tmp_path / "uverbs0").touch()
    assert uses_rdma({"UCX_TLS": transports}, devices=tmp_path) is expected


def test_the_message_says_what_is_allowed_and_what_to_do() -> None:
    assert problem(LockedMemory(limit=None)) is None
    assert problem(LockedMemory(limit=1024 * MIB)) is None
    found = problem(LockedMemory(limit=8 * MIB)) or ""
    assert found.startswith("RDMA memory cannot be registered: this container may lock 8 MiB")
    assert "LimitMEMLOCK=infinity" in found
    assert "transfer.lockedMemory" in found


RUN = ["run", "--name", "main", "--role", "pd", "--health-url", "http://127.0.0.1:1/h"]
RUN += ["--metrics-url", "http://127.0.0.1:1/m"]


def test_the_launcher_starts_nothing_and_the_condition_gets_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uverbs0").touch()
    log, started = tmp_path / "termination", tmp_path / "started"
    log.touch()
    monkeypatch.setattr(locked_memory, "RDMA_DEVICES", tmp_path)
    monkeypatch.setattr(locked_memory, "allowed", lambda: LockedMemory(limit=8 * MIB))
    monkeypatch.setenv("UCX_TLS", "rc,tcp")
    code = cli.run([*RUN, "--termination-log", str(log), "--", "touch", str(started)])
    assert code == 1
    assert "RDMA memory cannot be registered" in log.read_text()
    assert not started.exists()
