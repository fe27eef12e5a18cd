"""Finding processes, readiness of nodes, ports of the machine and forwarding."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from epd_local.cluster import exposure, forward, supervisor
from epd_local.cluster.bootstrap_objects import objects
from epd_local.cluster.power import reports_ready
from epd_local.cluster.processes import enter, inside_command, new_namespaces, parse_command_line
from epd_local.errors import ComponentFailedError, LocalClusterError

STATE = Path("/run/epd-test")
BEGAN = 1_800_000_000.0  # 2027-01-15T08:00:00Z


def test_a_process_is_found_by_the_command_line_it_was_started_with():
    command = inside_command("node", state=STATE, arguments=["gb200-0"])
    assert parse_command_line(command, state=STATE) == ("node", ("gb200-0",))


def test_the_wrapper_that_creates_the_namespaces_is_also_found():
    command = new_namespaces(inside_command("control-plane", state=STATE))
    assert parse_command_line(command, state=STATE) == ("control-plane", ())


@pytest.mark.parametrize("other", [Path("/run/epd"), Path("/run/epd-test2"), Path("/")])
def test_processes_of_another_cluster_are_ignored(other):
    assert parse_command_line(inside_command("node", state=STATE, arguments=["x"]), state=other) is None


@pytest.mark.parametrize("words", [[], ["-m"], ["python3", "-m", "epd_local.cluster.inside"], ["grep", str(STATE)]])
def test_other_processes_are_ignored(words):
    assert parse_command_line(words, state=STATE) is None


def test_a_command_enters_all_five_namespaces():
    assert enter(7, ["ls"]) == [
        "nsenter", "--target", "7", "--net", "--mount", "--uts", "--ipc", "--pid", "--", "ls",
    ]  # fmt: skip


def node(status: str, heartbeat: str) -> dict:
    return {"status": {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}]}}


def test_a_node_that_reports_ready_after_its_start_is_ready():
    assert reports_ready(node("True", "2027-01-15T08:00:01Z"), since=BEGAN)


def test_the_heartbeat_has_whole_seconds_only():
    assert reports_ready(node("True", "2027-01-15T08:00:00Z"), since=BEGAN + 0.9)


def test_a_heartbeat_from_before_the_start_of_the_node_does_not_count():
    assert not reports_ready(node("True", "2027-01-15T07:59:59Z"), since=BEGAN)


def test_a_node_with_a_false_or_missing_ready_condition_is_not_ready():
    assert not reports_ready(node("False", "2027-01-15T09:00:00Z"), since=BEGAN)
    assert not reports_ready({"metadata": {}}, since=BEGAN)


@pytest.mark.parametrize("text", ["demo:80", "default/demo", "default/demo:", "a/b/c:80", "default/Demo:80"])
def test_a_service_is_named_by_namespace_name_and_port(text):
    with pytest.raises(LocalClusterError, match="NAMESPACE/SERVICE:PORT"):
        exposure.parse_service_port(text)
    assert exposure.parse_service_port("default/demo:http").text == "default/demo:http"


class FakeApi:
    def __init__(self, spec):
        self.spec = spec

    def get(self, path):
        assert path == "/api/v1/namespaces/default/services/demo"
        return {"spec": self.spec}


PORTS = [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090}]


@pytest.mark.parametrize(("port", "target"), [("80", "10.96.0.7:80"), ("metrics", "10.96.0.7:9090")])
def test_a_port_of_a_service_is_found_by_number_or_name(port, target):
    wanted = exposure.parse_service_port(f"default/demo:{port}")
    assert exposure.target_of(wanted, api=FakeApi({"clusterIP": "10.96.0.7", "ports": PORTS})) == target


def test_a_port_that_a_service_lacks_is_refused_with_the_ports_that_it_has():
    wanted = exposure.parse_service_port("default/demo:81")
    with pytest.raises(LocalClusterError, match="80, 9090"):
        exposure.target_of(wanted, api=FakeApi({"clusterIP": "10.96.0.7", "ports": PORTS}))


def test_a_service_without_an_address_is_refused():
    wanted = exposure.parse_service_port("default/demo:80")
    with pytest.raises(LocalClusterError, match="headless"):
        exposure.target_of(wanted, api=FakeApi({"clusterIP": "None", "ports": PORTS}))


def test_a_port_that_another_program_uses_is_refused_with_the_fix():
    with exposure.listen(0) as taken, pytest.raises(LocalClusterError, match="--local-port"):
        exposure.listen(taken.getsockname()[1])


def test_a_port_in_use_is_refused_before_anything_is_started(tmp_path):
    with exposure.listen(0) as taken, pytest.raises(LocalClusterError, match="make demo LOCAL_PORT="):
        exposure.require_free(taken.getsockname()[1], state=tmp_path)


def test_checking_a_free_port_does_not_occupy_it(tmp_path):
    with exposure.listen(0) as found:
        port = found.getsockname()[1]
    exposure.require_free(port, state=tmp_path)
    exposure.listen(port).close()


def test_a_forwarder_finds_its_socket_in_its_arguments():
    words = forward.arguments(descriptor=9, port=8000, name="default/demo:80", target="10.96.0.7:80")
    assert forward.descriptor_in(words) == 9


async def echo_after_end(reader, writer):
    """Respond only after the client has closed its direction of the connection."""
    writer.write(b"got " + await reader.read())
    writer.close()


async def test_a_forwarded_connection_can_be_half_closed():
    upstream = await asyncio.start_server(echo_after_end, "127.0.0.1", 0)
    port = upstream.sockets[0].getsockname()[1]
    listening = exposure.listen(0)
    local = listening.getsockname()[1]
    serving = asyncio.create_task(forward.serve(listening, host="127.0.0.1", port=port))
    reader, writer = await asyncio.open_connection("127.0.0.1", local)
    writer.write(b"x" * 1_000_000)
    writer.write_eof()
    answer = await reader.read()
    assert answer == b"got " + b"x" * 1_000_000
    writer.close()
    serving.cancel()
    upstream.close()


async def test_a_connection_without_a_server_behind_it_is_closed_and_the_forwarder_continues():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    listening = exposure.listen(0)
    local = listening.getsockname()[1]
    serving = asyncio.create_task(forward.serve(listening, host="127.0.0.1", port=port))
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        assert await reader.read() == b""
        writer.close()
    serving.cancel()


def test_the_first_failure_is_reported_with_the_end_of_the_log(tmp_path):
    log = tmp_path / "kubelet.log"
    log.write_text("first line\nno keys\n")
    supervisor.record_failure(tmp_path, "rtx-0", supervisor.Failure("kubelet", "ended with exit code 3", log=log))
    supervisor.record_failure(tmp_path, "rtx-0", supervisor.Failure("containerd", "ended with signal 9", log=log))
    with pytest.raises(ComponentFailedError, match=r"rtx-0: kubelet ended with exit code 3(.|\n)*no keys"):
        supervisor.raise_failure(tmp_path, "rtx-0")
    supervisor.clear_failures(tmp_path, "rtx-0")
    supervisor.raise_failure(tmp_path, "rtx-0")


def test_a_new_cluster_has_dns_and_permissions_for_logs_and_exec():
    names = [body["metadata"]["name"] for _, body in objects()]
    assert {"kube-dns", "epd-local:kubelet-api-admin", "epd-local:coredns"} <= set(names)
