"""Groups: several real processes under one launcher."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

FAKE_MPS = """#!/bin/sh
echo "$CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" > "$MPS_RECORD.env"
if [ "$1" = -d ]; then
    [ -n "$MPS_FAILS" ] && { echo "no GPU here"; exit 1; }
    (exec setsid sleep 600) & echo $! > "$MPS_RECORD.pid"
else
    cat > "$MPS_RECORD.stdin"
fi
"""


def _started(marker: Path) -> list[int]:
    return [int(line.split()[0]) for line in marker.read_text().splitlines()] if marker.exists() else []


def test_processes_start_in_list_order_each_after_the_one_before_is_healthy(
    workbench, engine, eventually, get, tmp_path
):
    marker = tmp_path / "marker"
    options = ("--marker", str(marker), "--health", "503")
    members = [
        engine("encoder-0", "encoder", *options),
        engine("encoder-1", "encoder", *options),
        engine("pd", "pd", *options),
    ]
    launcher = workbench.launch(group={"processes": [member.process() for member in members]})
    for index, member in enumerate(members):
        eventually(lambda: len(_started(marker)) == index + 1, f"{member.name} starts")  # noqa: B023 - called at once
        eventually(lambda: "not registered its endpoint" in get(launcher.port, f"/ready/{member.name}")[1], "asked")  # noqa: B023
        assert _started(marker) == [other.port for other in members[: index + 1]]
        for later in members[index + 1 :]:
            assert get(launcher.port, f"/ready/{later.name}") == (503, f"{later.name} has not started yet")
        member.set(health="200")
        launcher.wait_ready(member.name)
    assert launcher.status()["state"] == "running"
    assert launcher.terminate() == 0


def test_each_process_of_a_group_has_a_metrics_port_of_its_own_also_before_it_is_started(
    workbench, engine, eventually, get, free_port
):
    members = [engine("encoder-0", "encoder", "--health", "503"), engine("pd", "pd")]
    ports = [free_port(), free_port()]
    processes = [member.process(metricsPort=port) for member, port in zip(members, ports, strict=True)]
    launcher = workbench.launch(group={"processes": processes})
    eventually(lambda: get(ports[0], "/metrics")[0] == 200, "the encoder's page comes")
    status, reason = get(ports[1], "/metrics")
    assert status == 503
    assert members[1].metrics_url in reason
    members[0].set(health="200")
    launcher.wait_ready("pd")
    for number, member in enumerate(members):
        member.set_in_flight(number + 7)
    for number, port in enumerate(ports):
        assert get(port, "/metrics")[1].endswith(f" {number + 7}")


def test_a_killed_process_ends_the_group_with_its_name(workbench, engine, alive, tmp_path):
    helper = tmp_path / "helper"
    members = [engine("encoder-0", "encoder", "--helper", str(helper)), engine("pd", "pd")]
    launcher = workbench.launch(group={"processes": [member.process() for member in members]})
    launcher.wait_ready("pd")
    pids = [launcher.pid("encoder-0"), launcher.pid("pd"), int(helper.read_text())]
    os.kill(pids[0], signal.SIGKILL)
    assert launcher.wait() == 137
    assert launcher.message().startswith("process encoder-0 ended with signal 9 (SIGKILL)")
    assert not any(alive(pid) for pid in pids)


def test_output_lines_carry_the_name_and_the_environment_is_added(workbench, engine):
    broken = engine("encoder-0", "encoder").process(
        command=["sh", "-c", "echo one; echo two >&2; echo group=${EPD_GROUP:-none} own=$OWN; exit 9"],
        env={"OWN": "yes"},
    )
    launcher = workbench.launch(group={"processes": [broken]})
    assert launcher.wait() == 9
    for line in ("[encoder-0] one", "[encoder-0] two", "[encoder-0] group=none own=yes"):
        assert line in launcher.output().splitlines()


def test_sigterm_while_starting_starts_nothing_more(workbench, engine, eventually, alive, tmp_path):
    marker = tmp_path / "marker"
    members = [
        engine(name, "encoder", "--marker", str(marker), "--health", "503") for name in ("encoder-0", "encoder-1")
    ]
    launcher = workbench.launch(group={"processes": [member.process() for member in members]})
    eventually(lambda: len(_started(marker)) == 1, "the first starts")
    pid = int(marker.read_text().split()[1])
    assert launcher.terminate() == 0
    assert not alive(pid)
    assert _started(marker) == [members[0].port]


def test_a_drain_while_starting_is_over_at_once_and_starts_nothing_more(workbench, engine, eventually, get, tmp_path):
    marker = tmp_path / "marker"
    members = [engine(name, "pd", "--marker", str(marker), "--health", "503") for name in ("a", "b")]
    launcher = workbench.launch("--settle", "600", group={"processes": [member.process() for member in members]})
    eventually(lambda: len(_started(marker)) == 1, "the first starts")
    status, summary = get(launcher.port, "/drain", method="POST")
    assert status == 200
    assert [line.split(" after")[0] for line in summary.splitlines()] == ["a: never ready", "b: never ready"]
    members[0].set(health="200")
    eventually(lambda: "is healthy after" in launcher.output(), "the first becomes healthy nevertheless")
    assert not launcher.ready("a")
    assert launcher.terminate() == 0
    assert _started(marker) == [members[0].port]


def test_the_pd_drains_while_the_encoders_stay_ready(workbench, engine, eventually, get):
    encoder, pd = engine("encoder-0", "encoder"), engine("pd", "pd")
    launcher = workbench.launch("--settle", "0", group={"processes": [encoder.process(), pd.process()]})
    launcher.wait_ready("pd")
    pd.set_in_flight(2)
    encoder.set_in_flight(1)
    hooks = [workbench.hook(launcher) for _ in range(3)]
    eventually(lambda: get(launcher.port, "/ready/pd") == (503, "pd is draining"), "pd is unready")
    eventually(lambda: launcher.status()["processes"][1]["inFlight"] == 2, "pd is asked")
    assert launcher.ready("encoder-0")
    pd.set_in_flight(0)
    eventually(lambda: not launcher.ready("encoder-0"), "the encoder's turn")
    assert all(hook.poll() is None for hook in hooks)
    assert launcher.status()["state"] == "draining"
    encoder.set_in_flight(0)
    assert [hook.wait(30) for hook in hooks] == [0, 0, 0]
    summaries = {workbench.output_of(hook) for hook in hooks}
    assert len(summaries) == 1
    assert [line.split(" after")[0] for line in summaries.pop().splitlines()] == ["pd: drained", "encoder-0: drained"]
    # The processes run on until SIGTERM, and a later hook has nothing to wait for.
    assert launcher.pid("pd")
    assert workbench.hook(launcher).wait(30) == 0
    assert launcher.output().count("drain started") == 1
    assert launcher.terminate() == 0


def test_an_encoder_waits_for_embeddings_that_were_announced_and_not_read(workbench, engine, eventually, free_port):
    page = "agent_memory_registered_total 32768\nagent_memory_deregistered_total {}"
    port = free_port()
    encoder = engine("encoder-0", "encoder", "--transfers-port", str(port))
    environment = {"NIXL_TELEMETRY_PROMETHEUS_PORT": str(port)}
    launcher = workbench.launch("--settle", "0", group={"processes": [encoder.process(env=environment)]})
    launcher.wait_ready("encoder-0")
    encoder.set(transfers=page.format(16384))
    hook = workbench.hook(launcher)
    eventually(lambda: launcher.status()["processes"][0]["unreadBytes"] == 16384, "the page of NIXL is read")
    assert hook.poll() is None
    encoder.set(transfers=page.format(32768))
    assert hook.wait(30) == 0
    assert workbench.output_of(hook).startswith("encoder-0: drained")


def test_an_encoder_whose_nixl_was_never_used_needs_no_wait(workbench, engine, free_port):
    environment = {"NIXL_TELEMETRY_PROMETHEUS_PORT": str(free_port())}
    encoder = engine("encoder-0", "encoder")
    launcher = workbench.launch("--settle", "0", group={"processes": [encoder.process(env=environment)]})
    launcher.wait_ready("encoder-0")
    hook = workbench.hook(launcher)
    assert hook.wait(30) == 0
    assert launcher.status()["processes"][0]["unreadBytes"] == 0


def test_a_drain_ends_at_its_time_limit_and_reports_the_remaining_requests(workbench, engine):
    fake = engine("main", "pd")
    launcher = workbench.run(fake, "--settle", "0", "--drain-timeout", "1")
    launcher.wait_ready()
    fake.set_in_flight(3)
    hook = workbench.hook(launcher)
    assert hook.wait(30) == 0
    assert workbench.output_of(hook).startswith("main: time limit reached after ")
    assert workbench.output_of(hook).strip().endswith("(3 requests still in flight)")


def test_metrics_that_cannot_be_read_are_not_zero(workbench, engine):
    fake = engine("main", "pd")
    launcher = workbench.run(fake, "--settle", "0", "--drain-timeout", "1")
    launcher.wait_ready()
    fake.set(metrics="something else 1")
    hook = workbench.hook(launcher)
    assert hook.wait(30) == 0
    assert "has no metric of the requests in flight of role pd" in workbench.output_of(hook)


def test_a_process_that_dies_while_draining_ends_the_hook_and_the_launcher(workbench, engine, eventually):
    fake = engine("main", "pd")
    launcher = workbench.run(fake, "--settle", "0")
    launcher.wait_ready()
    fake.set_in_flight(1)
    hook = workbench.hook(launcher)
    eventually(lambda: launcher.status()["processes"][0]["inFlight"] == 1, "draining")
    os.kill(launcher.pid(), signal.SIGKILL)
    assert launcher.wait() == 137
    assert hook.wait(30) == 0
    assert workbench.output_of(hook).startswith("main: process ended after ")


def test_sigterm_during_a_drain_stops_and_answers_the_hook(workbench, engine, eventually):
    fake = engine("main", "pd")
    launcher = workbench.run(fake, "--settle", "0")
    launcher.wait_ready()
    fake.set_in_flight(1)
    hook = workbench.hook(launcher)
    eventually(lambda: launcher.status()["processes"][0]["inFlight"] == 1, "draining")
    assert launcher.terminate() == 0
    assert hook.wait(30) == 0
    assert workbench.output_of(hook).startswith("main: process ended after ")


def test_a_hook_without_a_launcher_does_not_fail(workbench, engine):
    hook = workbench.start(["drain", "--control-port", str(engine().port)])
    assert hook.wait(30) == 0
    assert "nothing to drain" in workbench.output_of(hook)


@pytest.fixture
def fake_mps(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(FAKE_MPS)
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "MPS_RECORD": str(tmp_path / "mps")}


def test_cuda_mps_runs_as_long_as_the_group(workbench, engine, fake_mps, alive, tmp_path):
    directory = tmp_path / "epd-mps"
    fake = engine("pd", "pd")
    variables = Path(f"{fake_mps['MPS_RECORD']}.process")
    script = f'echo "$CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY" > {variables}; exec "$@"'
    launcher = workbench.launch(
        *("--mps-directory", str(directory)),
        group={"processes": [fake.process(command=["sh", "-c", script, "sh", *fake.command])], "cudaMps": True},
        environment=fake_mps,
    )
    launcher.wait_ready("pd")
    daemon = int((tmp_path / "mps.pid").read_text())
    assert alive(daemon)
    expected = f"{directory}/pipe {directory}/log\n"
    assert (tmp_path / "mps.env").read_text() == expected
    assert variables.read_text() == expected
    assert (directory / "pipe").is_dir()
    assert launcher.terminate() == 0
    assert (tmp_path / "mps.stdin").read_text() == "quit\n"
    assert not alive(daemon)


def test_cuda_mps_without_its_program_fails_with_the_fix(workbench, engine, tmp_path):
    launcher = workbench.launch(
        *("--mps-directory", str(tmp_path / "mps")),
        group={"processes": [engine("pd", "pd").process()], "cudaMps": True},
        environment={"PATH": "/nowhere"},
    )
    assert launcher.wait() == 127
    assert "CUDA MPS is enabled (cudaMps), but nvidia-cuda-mps-control: command not found" in launcher.message()
    assert "set group.gpuSharing.strategy to TimeSlicing" in launcher.message()


def test_the_output_of_a_failed_cuda_mps_is_quoted(workbench, engine, fake_mps, tmp_path):
    launcher = workbench.launch(
        *("--mps-directory", str(tmp_path / "mps")),
        group={"processes": [engine("pd", "pd").process()], "cudaMps": True},
        environment={**fake_mps, "MPS_FAILS": "yes"},
    )
    assert launcher.wait() == 1
    assert "nvidia-cuda-mps-control -d ended with exit code 1; last output: no GPU here" in launcher.message()
