"""The launcher accepts every command line that the operator renders, and reads the intended values from it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given

import epd_worker
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.stages import MAX_GROUP_ENCODERS, GpuSharingStrategy
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.plan.pods.launcher import CONTROL_PORT, DRAIN_SETTLE_SECONDS
from epd_operator.plan.pods.process import HTTP_PORT
from epd_worker import cli, listening
from epd_worker.spec import MAX_PROCESSES
from support.specs import specs
from unit.contracts import rendered

SOURCES = str(Path(epd_worker.__file__).parents[1])
TIMEOUT_SECONDS = 60
STRATEGIES = [(GpuSharingStrategy.MPS, True), (GpuSharingStrategy.TIME_SLICING, False)]


def test_run_gets_the_name_the_role_and_the_drain_of_each_single_process() -> None:
    for stage, template in rendered.single_process_stages(drain={"timeoutSeconds": 77}):
        (container,) = rendered.containers(template)
        launch = rendered.parsed(container)
        (process,) = launch.processes
        assert (process.name, process.role) == (container["name"], stage)
        assert (launch.drain_timeout, launch.settle) == (77, DRAIN_SETTLE_SECONDS)
        assert launch.control_port == rendered.ports(container)["control"]
        assert not launch.group


def test_the_launcher_of_every_stage_gets_the_time_without_an_answer_from_the_spec() -> None:
    for _, template in rendered.all_templates(runtime={"image": "x", "hangTimeoutSeconds": 0}):
        assert rendered.parsed(rendered.containers(template)[-1]).hang_timeout == 0
    for _, template in rendered.all_templates(runtime={"image": "x", "hangTimeoutSeconds": 45}):
        assert rendered.parsed(rendered.containers(template)[-1]).hang_timeout == 45


def test_the_launcher_chooses_the_address_of_the_frontend_because_the_operator_sets_none() -> None:
    for stage, template in rendered.single_process_stages():
        (container,) = rendered.containers(template)
        (process,) = rendered.parsed(container).processes
        assert "--http-host" not in process.command
        assert listening.VARIABLE not in rendered.environment(container), stage


def test_run_gets_the_command_of_dynamo_unchanged() -> None:
    args = ["--enforce-eager", "--x=--", "a b", "--settle"]
    for stage, template in rendered.single_process_stages(runtime={"image": "x", "args": args}):
        (container,) = rendered.containers(template)
        (process,) = rendered.parsed(container).processes
        program = "dynamo.frontend" if stage is StageName.FRONTEND else "dynamo.vllm"
        assert process.command[:3] == ("python3", "-m", program)
        assert stage is StageName.FRONTEND or list(process.command[-len(args) :]) == args


def test_run_serves_the_metrics_of_each_process_except_frontends_on_the_port_named_system() -> None:
    for stage, template in rendered.single_process_stages():
        (container,) = rendered.containers(template)
        (process,) = rendered.parsed(container).processes
        system = rendered.ports(container)["system"]
        assert process.metrics_port == (None if stage is StageName.FRONTEND else system)


def test_run_waits_for_a_model_only_in_frontends() -> None:
    for stage, template in rendered.single_process_stages():
        (process,) = rendered.parsed(rendered.containers(template)[0]).processes
        expected = f"http://127.0.0.1:{HTTP_PORT}/v1/models" if stage is StageName.FRONTEND else None
        assert process.models_url == expected


def test_health_and_metrics_are_read_at_the_port_of_the_process() -> None:
    for stage, template in rendered.single_process_stages():
        (container,) = rendered.containers(template)
        (process,) = rendered.parsed(container).processes
        listens = HTTP_PORT if stage is StageName.FRONTEND else int(rendered.environment(container)["DYN_SYSTEM_PORT"])
        assert process.health_url == f"http://127.0.0.1:{listens}/health"
        assert process.metrics_url == f"http://127.0.0.1:{listens}/metrics"


@pytest.mark.parametrize("encoders", range(1, MAX_GROUP_ENCODERS + 1))
@pytest.mark.parametrize(("strategy", "cuda_mps"), STRATEGIES)
def test_run_group_gets_one_process_per_container_in_start_order(encoders: int, strategy: str, cuda_mps: bool) -> None:
    template = rendered.group_template(encoders, gpuSharing={"strategy": strategy})
    containers = rendered.containers(template)
    launch = rendered.parsed(containers[-1])
    assert [process.name for process in launch.processes] == [container["name"] for container in containers]
    assert [process.role for process in launch.processes] == ["encoder"] * encoders + ["pd"]
    assert (launch.group, launch.cuda_mps) == (True, cuda_mps)
    assert launch.control_port == rendered.ports(containers[-1])["control"]
    metrics_ports = [port for name, port in rendered.ports(containers[-1]).items() if name.startswith("system-")]
    assert [process.metrics_port for process in launch.processes] == metrics_ports
    for process in launch.processes:
        assert process.environment["CONTAINER_NAME"] == process.name
        listens = int(process.environment["DYN_SYSTEM_PORT"])
        assert {urlsplit(url).port for url in (process.health_url, process.metrics_url)} == {listens}


def test_the_largest_group_of_the_api_is_not_above_the_limit_of_the_launcher() -> None:
    assert MAX_GROUP_ENCODERS + 1 <= MAX_PROCESSES


@given(specs)
def test_every_valid_spec_gives_command_lines_that_the_launcher_accepts(wanted: EPDDeploymentSpec) -> None:
    for template in rendered.templates(wanted).values():
        launch = rendered.parsed(rendered.containers(template)[-1])
        assert launch.drain_timeout == wanted.drain.timeout_seconds


def test_probes_have_the_paths_of_the_processes_that_the_launcher_runs() -> None:
    for _, template in rendered.all_templates():
        containers = rendered.containers(template)
        names = {process.name for process in rendered.parsed(containers[-1]).processes}
        probes = [container["readinessProbe"]["httpGet"] for container in containers]
        assert {probe["path"] for probe in probes} == {f"/ready/{name}" for name in names}
        assert {probe["port"] for probe in probes} == {CONTROL_PORT}


def test_the_stub_of_each_encoder_starts_and_ends_with_0_on_sigterm() -> None:
    *stubs, _ = rendered.containers(rendered.group_template(2))
    assert len(stubs) == 2
    for container in stubs:
        started = subprocess.Popen(
            rendered.local(container["command"]),
            env={**os.environ, "PYTHONPATH": SOURCES},
            stdout=subprocess.PIPE,
            text=True,
        )
        with started:
            assert started.stdout is not None
            assert started.stdout.readline().startswith(f"epd_worker: {container['name']} runs under the launcher")
            started.terminate()
            assert started.wait(TIMEOUT_SECONDS) == 0


def test_the_hook_of_every_container_drains_the_launcher_at_its_control_port() -> None:
    for _, template in rendered.all_templates():
        containers = rendered.containers(template)
        launch = rendered.parsed(containers[-1])
        for container in containers:
            options, command = cli.parse(rendered.arguments(container["lifecycle"]["preStop"]["exec"]["command"]))
            assert (options.subcommand, options.control_port, command) == ("drain", launch.control_port, [])
