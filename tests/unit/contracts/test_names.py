"""Roles, metrics, paths and limits have the same values in the operator and in the launcher."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from epd_local.image import small
from epd_operator.api.v1alpha1.base import DnsLabel
from epd_operator.api.v1alpha1.env import OWNED_VARIABLE_PREFIXES, OWNED_VARIABLES
from epd_operator.api.v1alpha1.pod_template import CACHE_PATH, OWNED_MOUNT_PATHS
from epd_operator.api.v1alpha1.stages import GpuSharingStrategy, Group
from epd_operator.backends import dynamo, vllm
from epd_operator.backends.registry import BACKENDS
from epd_operator.plan.pods.template import WORKER_USER
from epd_worker import metrics, mps
from epd_worker.spec import LaunchSpec, Role, check_name
from unit.contracts import rendered

ROOT = Path(__file__).parents[3]
CPU_IMAGE = (ROOT / "worker_images" / "Containerfile.cpu").read_text()
PAGES = ROOT / "tests" / "monitoring" / "pages"
OTHER_VERSIONS_OF_DYNAMO = {"dynamo_frontend_inflight_requests"}
"""Only the launcher reads it: a worker image may have another version of Dynamo, where the gauge has this name."""


def signals(role: Role) -> set[str]:
    """Names of the metrics that the launcher reads for a role."""
    return {series.name for series in metrics.SIGNALS[role].series()}


def known_metrics() -> set[str]:
    """Names of the metrics in the descriptions of Dynamo and of the engines."""
    of_dynamo = {
        dynamo.ACTIVE_REQUESTS,
        dynamo.SERVED_REQUESTS,
        dynamo.DISCONNECTED_CLIENTS,
        dynamo.IN_FLIGHT_REQUESTS,
        dynamo.PICKUP_QUEUE,
        dynamo.REQUEST_SECONDS,
        dynamo.TIME_TO_FIRST_TOKEN,
        dynamo.INTER_TOKEN_LATENCY,
    }
    return of_dynamo.union(*((*b.metrics.gauges, *b.metrics.histograms) for b in BACKENDS.values()))


def test_operator_and_launcher_have_the_same_roles() -> None:
    assert {role.value for role in Role} == {role.value for role in dynamo.Role}


@pytest.mark.parametrize("role", Role)
def test_every_metric_that_the_launcher_reads_is_in_the_operators_description(role: Role) -> None:
    assert signals(role) - OTHER_VERSIONS_OF_DYNAMO <= known_metrics()


def test_operator_and_launcher_use_the_same_metrics_for_idle_frontends() -> None:
    signal = metrics.SIGNALS[Role.FRONTEND]
    assert signal.counted[0].name == dynamo.ACTIVE_REQUESTS
    assert signal.idle_mark is not None
    assert signal.busy_mark is not None
    assert (signal.idle_mark.name, signal.busy_mark.name) == (dynamo.DISCONNECTED_CLIENTS, dynamo.SERVED_REQUESTS)


@pytest.mark.parametrize("role", [Role.WORKER, Role.PD])
def test_a_drain_waits_for_the_requests_of_every_engine(role: Role) -> None:
    for backend in BACKENDS.values():
        assert {backend.metrics.running, backend.metrics.waiting} <= signals(role)


@pytest.mark.parametrize(("page", "role"), [("frontend", Role.FRONTEND), ("encoder", Role.ENCODER), ("pd", Role.PD)])
def test_the_launcher_reads_requests_in_flight_from_recorded_pages_of_every_role(page: str, role: Role) -> None:
    assert metrics.in_flight(role, (PAGES / f"{page}_busy.txt").read_text()) is not None


@pytest.mark.parametrize("name", ["a", "pd", "encoder-7", "a" * 63, "", "A", "a_b", "-a", "a-", "a" * 64, "a.b"])
def test_the_launcher_accepts_exactly_the_names_that_containers_can_have(name: str) -> None:
    def accepts(check: Callable[[str], object]) -> bool:
        try:
            check(name)
        except ValueError:
            return False
        return True

    label = TypeAdapter(DnsLabel)
    assert accepts(lambda text: check_name("name", text)) == accepts(label.validate_python)


def test_variables_that_the_launcher_sets_or_reads_cannot_be_set_by_users() -> None:
    for name in (mps.PIPE_VARIABLE, mps.LOG_VARIABLE, "EPD_GROUP"):
        assert name.startswith(OWNED_VARIABLE_PREFIXES) or name in OWNED_VARIABLES, name


def test_the_fix_that_the_launcher_names_for_a_missing_mps_daemon_is_a_value_of_the_api() -> None:
    text = Path(mps.__file__).read_text()
    assert f"group.gpuSharing.strategy to {GpuSharingStrategy.TIME_SLICING}" in text
    assert {"gpu_sharing"} <= Group.model_fields.keys()


def test_the_mps_directory_is_on_no_volume_of_the_operator() -> None:
    directory = Path(LaunchSpec(processes=()).mps_directory)
    assert not [path for path in OWNED_MOUNT_PATHS if directory.is_relative_to(path)]


def test_the_home_folder_is_the_cache_volume_in_pods_and_in_all_images() -> None:
    assert small.WORKER_HOME == CACHE_PATH
    assert dict(re.findall(r"\b(HOME|XDG_CACHE_HOME)=(\S+)", CPU_IMAGE)) == {
        "HOME": CACHE_PATH,
        "XDG_CACHE_HOME": CACHE_PATH,
    }
    for _, template in rendered.all_templates():
        container = rendered.containers(template)[-1]
        assert rendered.environment(container)["HOME"] == CACHE_PATH
        assert CACHE_PATH in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_processes_run_as_the_user_that_the_images_have() -> None:
    assert f"USER {WORKER_USER}:{WORKER_USER}" in CPU_IMAGE
    assert {*re.findall(r"--[ug]id (\d+)", CPU_IMAGE)} == {str(WORKER_USER)}
    with tarfile.open(fileobj=io.BytesIO(small.worker_layer(b"", applets=[]))) as layer:
        assert layer.getmember(CACHE_PATH.lstrip("/")).mode == 0o1777
        users = layer.extractfile("etc/passwd")
        assert users is not None
        assert f"worker:x:{WORKER_USER}:".encode() in users.read()


def test_both_cpu_images_have_nixl_at_the_same_path() -> None:
    settings = dict(re.findall(r"\b(LD_LIBRARY_PATH|NIXL_PLUGIN_DIR)=(\S+)", CPU_IMAGE))
    assert settings["NIXL_PLUGIN_DIR"] == small.WORKER_ENVIRONMENT["NIXL_PLUGIN_DIR"]
    folder = small.WORKER_ENVIRONMENT["LD_LIBRARY_PATH"].split(":")[-1]
    assert folder in settings["LD_LIBRARY_PATH"].split(":")


def local_examples() -> list[Any]:
    return [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "examples" / "local").glob("*.yaml"))]


def test_examples_for_the_local_cluster_use_its_worker_image() -> None:
    assert {example["spec"]["runtime"]["image"] for example in local_examples()} == {small.WORKER_IMAGE}


@pytest.mark.parametrize("decoding", ["Worker", "Frontend"])
def test_users_cannot_set_the_variables_of_any_rendered_process(decoding: str) -> None:
    devices = {"ucx": {"transports": ["rc", "tcp"], "devices": ["mlx5_0:1"]}}
    names = set()
    for _, template in rendered.all_templates(transfer=devices, frontend={"mediaDecoding": decoding}):
        for container in rendered.containers(template):
            names |= set(rendered.environment(container))
        names |= {name for p in rendered.parsed(rendered.containers(template)[-1]).processes for name in p.environment}
    assert {"HOME", "NIXL_TELEMETRY_PROMETHEUS_PORT", "DYN_SYSTEM_PORT"} <= names
    open_to_users = {n for n in names if not n.startswith(OWNED_VARIABLE_PREFIXES) and n not in OWNED_VARIABLES}
    of_groups = {*vllm.GROUP_VARIABLES, *vllm.PROCESS_CACHES}
    assert open_to_users == {*dynamo.DEFAULT_VARIABLES, *dynamo.FRONTEND_DEFAULT_VARIABLES, *of_groups}
