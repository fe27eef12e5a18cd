"""The launcher with one process, all of it real processes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import epd_worker


def test_a_process_is_ready_while_its_health_page_answers_200(workbench, engine, eventually, get):
    fake = engine("main", "worker", "--health", "503")
    launcher = workbench.run(fake)
    eventually(lambda: "not registered its endpoint" in get(launcher.port, "/ready/main")[1], "the reason is shown")
    assert get(launcher.port, "/live")[0] == 200
    fake.set(health="200")
    launcher.wait_ready()
    fake.set(health="500")
    eventually(lambda: not launcher.ready(), "unready again")
    assert "its health page returned HTTP 500" in get(launcher.port, "/ready/main")[1]
    fake.set(health="200")
    launcher.wait_ready()


def test_a_frontend_is_ready_when_it_lists_a_model(workbench, engine, eventually, get):
    fake = engine("main", "frontend")
    launcher = workbench.run(fake, "--models-url", fake.health_url.replace("/health", "/v1/models"))
    eventually(
        lambda: "its list of models is still empty" in get(launcher.port, "/ready/main")[1], "the reason is shown"
    )
    fake.set(models='{"data": [{"id": "tiny"}]}')
    launcher.wait_ready()


def test_other_pods_read_the_metrics_of_a_process_until_the_launcher_ends(
    workbench, engine, eventually, get, free_port
):
    fake, port = engine("main", "worker", "--health", "503"), free_port()
    launcher = workbench.run(fake, "--metrics-port", str(port), "--settle", "0")
    seen = set()

    def page_comes():
        seen.add(get(port, "/metrics"))
        return any(status == 200 for status, _ in seen)

    eventually(page_comes, "the page comes")
    assert {status for status, _ in seen} <= {0, 200, 503}
    fake.set(health="200")
    launcher.wait_ready()
    assert get(port, "/set?health=500")[0] == 404
    assert get(port, "/metrics", method="POST")[0] == 405
    fake.set_in_flight(1)
    hook = workbench.hook(launcher)
    eventually(lambda: launcher.status()["state"] == "draining", "the drain begins")
    assert get(port, "/metrics") == (200, 'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 1')
    fake.set_in_flight(0)
    assert hook.wait() == 0
    assert get(port, "/metrics")[0] == 200
    assert launcher.terminate() == 0


def test_without_a_metrics_port_nothing_is_opened(workbench, engine, get):
    launcher = workbench.run(engine("main", "frontend"))
    launcher.wait_ready()
    assert get(launcher.port, "/metrics")[0] == 404


def test_a_metrics_port_in_use_ends_the_launcher_with_the_reason(workbench, engine):
    fake = engine()
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        launcher = workbench.run(fake, "--metrics-port", str(port))
        assert launcher.wait() == 1
    assert launcher.message() == f"cannot listen on metrics port of main {port}: Address already in use"


def test_sigterm_stops_the_process_and_the_launcher_ends_with_0(workbench, engine, alive):
    launcher = workbench.run(engine())
    launcher.wait_ready()
    pid = launcher.pid()
    assert launcher.terminate() == 0
    assert not alive(pid)
    assert launcher.message() == ""


def test_sigterm_while_starting_stops_at_once(workbench, engine, eventually, alive):
    launcher = workbench.run(engine("main", "worker", "--health", "503"))
    eventually(lambda: bool(launcher.log.exists() and "started as process" in launcher.output()), "started")
    pid = launcher.pid()
    assert launcher.terminate() == 0
    assert not alive(pid)


EARLY_SIGTERM = """
import os, signal, sys
class Early:
    def find_spec(self, name, path=None, target=None):
        if name == "epd_worker.cli":
            os.kill(os.getpid(), signal.SIGTERM)
sys.meta_path.insert(0, Early())
from epd_worker.__main__ import main
sys.exit(main())
"""


def test_a_sigterm_before_the_launcher_is_loaded_is_not_lost(engine, tmp_path):
    # The kernel drops signals to process 1 of a container that have no handler.
    fake = engine()
    options = ["--name", fake.name, "--role", fake.role, "--health-url", fake.health_url]
    options += ["--metrics-url", fake.metrics_url, "--control-port", str(engine("spare").port)]
    command = [sys.executable, "-c", EARLY_SIGTERM, "run", *options, "--", *fake.command]
    sources = str(Path(epd_worker.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": sources}
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=30, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "received SIGTERM: stopping" in ended.stdout


def test_a_process_that_ignores_sigterm_is_killed_after_the_stop_timeout(workbench, engine, alive):
    launcher = workbench.run(engine("main", "worker", "--ignore-term"), "--stop-timeout", "0.3")
    launcher.wait_ready()
    pid = launcher.pid()
    assert launcher.terminate() == 137
    assert not alive(pid)
    assert launcher.message() == "main: killed, still running 0.3 s after SIGTERM"


@pytest.mark.parametrize("session", [(), ("--helper-leaves-session",)], ids=["same group", "own session"])
def test_a_killed_process_leaves_no_helper_behind(workbench, engine, alive, tmp_path, session):
    helper = tmp_path / "helper"
    launcher = workbench.run(engine("main", "worker", "--helper", str(helper), *session))
    launcher.wait_ready()
    helper_pid = int(helper.read_text())
    assert alive(helper_pid)
    os.kill(launcher.pid(), signal.SIGKILL)
    assert launcher.wait() == 137
    assert not alive(helper_pid)
    assert launcher.message().startswith("process main ended with signal 9 (SIGKILL) after ")
    assert "out of memory" in launcher.message()


@pytest.mark.parametrize("session", [(), ("--helper-leaves-session",)], ids=["same group", "own session"])
def test_sigterm_leaves_no_helper_behind(workbench, engine, alive, tmp_path, session):
    helper = tmp_path / "helper"
    launcher = workbench.run(engine("main", "worker", "--helper", str(helper), *session))
    launcher.wait_ready()
    assert launcher.terminate() == 0
    assert not alive(int(helper.read_text()))


def _run_command(workbench, *command, environment=None):
    urls = ["--health-url", "http://127.0.0.1:9/health", "--metrics-url", "http://127.0.0.1:9/metrics"]
    return workbench.launch("--role", "pd", *urls, command=list(command), environment=environment)


def test_a_failed_process_gives_its_exit_code_and_its_last_output(workbench):
    script = "import sys; print('loading', flush=True); sys.exit('\\x1b[31mno such model: café\\x1b[0m\\n\\n')"
    launcher = _run_command(workbench, sys.executable, "-c", script)
    assert launcher.wait() == 1
    assert launcher.message() == "process main ended with exit code 1 after 0 s; last output: no such model: café"
    assert launcher.message() in launcher.output()


def test_a_flood_of_output_gives_a_short_message(workbench):
    script = "import sys; sys.stdout.buffer.write(b'\\xff\\x00' * 300000); sys.exit(3)"
    launcher = _run_command(workbench, sys.executable, "-c", script)
    assert launcher.wait() == 3
    assert 0 < len(launcher.termination_log.read_bytes()) <= 1024
    assert "\n" not in launcher.message()


def test_the_output_of_a_single_process_is_passed_on_unchanged(workbench):
    launcher = _run_command(workbench, sys.executable, "-c", "print('a\\n\\n  b'); import sys; sys.exit(4)")
    assert launcher.wait() == 4
    assert "a\n\n  b\n" in launcher.output()


def test_a_missing_program_is_named(workbench):
    launcher = _run_command(workbench, "no-such-program", environment={"PATH": "/nowhere"})
    assert launcher.wait() == 127
    assert launcher.message() == "no-such-program: command not found in PATH /nowhere"


def test_a_program_that_cannot_be_executed_is_named(workbench, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("neither ELF nor a script\n")
    broken.chmod(0o755)
    launcher = _run_command(workbench, str(broken))
    assert launcher.wait() == 126
    assert launcher.message() == f"{broken}: Exec format error"


def test_a_control_port_in_use_is_named(workbench, engine):
    first = workbench.run(engine())
    first.wait_ready()
    # The last of two equal flags counts.
    second = workbench.run(engine(), "--control-port", str(first.port))
    assert second.wait() == 1
    assert second.message() == f"cannot listen on control port {first.port}: Address already in use"


def test_the_child_gets_default_signals_and_an_empty_stdin(workbench):
    script = (
        "import sys\n"
        "print('STDIN', repr(sys.stdin.read()))\n"
        "print(*[l for l in open('/proc/self/status') if l.startswith(('SigBlk', 'SigIgn'))])\n"
        "sys.exit(5)"
    )
    launcher = _run_command(workbench, sys.executable, "-c", script)
    assert launcher.wait() == 5
    blocked, ignored = (
        int(line.split(":")[1], 16) for line in launcher.output().splitlines() if line.strip().startswith("Sig")
    )
    assert "STDIN ''" in launcher.output()
    assert blocked == 0
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25) at its start; SIGINT and SIGTERM must not be.
    assert not ignored & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGTERM - 1))


def _may_make_pid_namespaces() -> bool:
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([tool, "-p", "-f", "true"], check=False).returncode == 0


@pytest.mark.skipif(not _may_make_pid_namespaces(), reason="needs the right to make a PID namespace")
def test_as_process_1_the_launcher_reaps_orphans_and_stops_on_sigterm(workbench, engine, eventually, tmp_path):
    # Double fork: the parent of the helper exits at once, process 1 inherits the helper, and then the helper ends.
    orphan = tmp_path / "orphan"
    script = f"(sh -c 'echo $$ > {orphan}; sleep 0.2' &); exec \"$@\""
    fake = engine()
    launcher = workbench.launch(
        *("--role", "worker", "--health-url", fake.health_url, "--metrics-url", fake.metrics_url),
        command=["sh", "-c", script, "sh", *fake.command],
        wrapper=("unshare", "--pid", "--fork", "--mount-proc"),
    )
    launcher.wait_ready()
    process_1 = int(Path(f"/proc/{launcher.popen.pid}/task/{launcher.popen.pid}/children").read_text())
    eventually(
        lambda: len(Path(f"/proc/{process_1}/task/{process_1}/children").read_text().split()) == 1,
        "the orphan is reaped and only the engine is left",
    )
    os.kill(process_1, signal.SIGTERM)
    assert launcher.wait() == 0


def test_a_stub_ends_with_0_on_sigterm_and_logs_where_its_process_runs(workbench, eventually):
    stub = workbench.start(["stub", "--name", "encoder-0"])
    eventually(lambda: "encoder-0 runs under the launcher" in workbench.output_of(stub), "the stub runs")
    stub.send_signal(signal.SIGTERM)
    assert stub.wait(30) == 0


def test_a_stub_loads_neither_asyncio_nor_argparse(workbench):
    loaded = "import sys; sys.argv=['epd_worker', 'stub']; from epd_worker.__main__ import main; main(); "
    report = "print(*[name for name in ('asyncio', 'argparse', 'json', 'http') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-S", "-c", loaded + report],
        env={**os.environ, "PYTHONPATH": str(Path(sys.modules["epd_worker"].__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ""
    assert done.stderr.startswith("usage: ")
