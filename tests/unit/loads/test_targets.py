"""Which metrics page of which pod is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.targets import readiness_of, targets_of
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages
from support.specs import spec

IDENTITY = Identity(name="qwen", namespace="shop", uid="u")


def pod(stage: str = "encoder", *, name: str = "p", ip: Any = "10.1.2.3", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"app.kubernetes.io/component": stage}, **metadata},
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": ip, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def planned_pods(topology: str, **changes: Any) -> list[dict[str, Any]]:
    """One live pod of each stage, as the planner renders them."""
    return [
        {
            "metadata": {"name": stage.name.value, **stage.pod_template["metadata"]},
            "spec": stage.pod_template["spec"],
            "status": pod()["status"],
        }
        for stage in plan_stages(spec(topology, **changes), identity=IDENTITY)
    ]


def urls(pods: list[dict[str, Any]]) -> dict[str, str]:
    return {target.pod: target.url for target in targets_of(pods)}


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        ("Aggregated", {"frontend": 8000, "worker": 9090}),
        ("Disaggregated", {"frontend": 8000, "encoder": 9090, "pd": 9090}),
        ("CoLocated", {"frontend": 8000, "group": 9092}),
    ],
)
def test_every_planned_pod_is_read_at_the_port_with_its_request_metrics(topology, expected):
    assert urls(planned_pods(topology)) == {p: f"http://10.1.2.3:{port}/metrics" for p, port in expected.items()}


@pytest.mark.parametrize("encoders", [1, 3, 8])
def test_a_group_is_read_at_its_pd_process_for_any_number_of_encoders(encoders):
    pods = planned_pods("CoLocated", group={"pool": "gb200", "encoder": {"count": encoders, "memory": "4Gi"}})
    assert urls(pods)["group"] == f"http://10.1.2.3:{9090 + encoders}/metrics"


def test_port_numbers_of_a_pod_are_not_used():
    group = pod("group")
    group["spec"]["containers"] = [{"ports": [{"name": "system-0", "containerPort": 22}]}]
    worker = pod("worker", name="w")
    worker["spec"]["containers"] = [{"ports": [{"name": "system", "containerPort": 22}]}]
    assert urls([group, worker]) == {"p": "http://10.1.2.3:9090/metrics", "w": "http://10.1.2.3:9090/metrics"}


def test_a_group_without_process_ports_is_not_read_and_one_with_too_many_stays_in_range():
    assert targets_of([pod("group")]) == ()
    endless = pod("group")
    endless["spec"]["containers"] = [{"ports": [{"name": f"system-{i}"} for i in range(1000)]}]
    assert urls([endless]) == {"p": "http://10.1.2.3:9098/metrics"}


def test_an_ipv6_address_is_in_brackets():
    assert urls([pod(ip="fd00:0::0012")]) == {"p": "http://[fd00::12]:9090/metrics"}


@pytest.mark.parametrize(
    "ip",
    [
        None,
        "",
        7,
        ["10.0.0.1"],
        "example.test",
        "10.0.0.1/8",
        "10.0.0.1:80",
        "10.0.0.1@evil.test",
        "010.0.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "224.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fd00::1%evil.test",
        "fd00::1%evil.test/x",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "2002:a9fe:a9fe::1",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd20:ce::254",
    ],
)
def test_an_address_that_no_pod_can_have_gives_no_url(ip):
    assert targets_of([pod(ip=ip)]) == ()


def test_terminating_and_ended_pods_are_not_read():
    ended = [pod(name=phase) for phase in ("Succeeded", "Failed")]
    for each in ended:
        each["status"]["phase"] = each["metadata"]["name"]
    assert targets_of([pod(deletionTimestamp="2026-01-01T00:00:00Z"), *ended]) == ()


def test_a_starting_pod_counts_as_not_ready_even_before_it_has_an_address():
    waiting = pod(name="waiting", ip=None)
    starting = pod(name="starting")
    waiting["status"].pop("conditions")
    starting["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    pods = [waiting, starting, pod(name="up"), pod(name="terminating", deletionTimestamp="2026-01-01T00:00:00Z")]
    assert readiness_of(pods) == {"waiting": False, "starting": False, "up": True}
    assert {target.pod: target.ready for target in targets_of(pods)} == {"starting": False, "up": True}


def test_pods_without_a_stage_are_not_read():
    sidecar = pod("sidecar")
    unlabelled = pod(name="u")
    unlabelled["metadata"]["labels"] = None
    assert targets_of([sidecar, unlabelled]) == ()


@pytest.mark.parametrize("name", [None, "", 7, "a|b", 'p"}', "P", "a b", "a" * 300, "p\n"])
def test_pods_with_an_invalid_name_are_ignored(name):
    assert targets_of([pod(name=name)]) == ()
    assert readiness_of([pod(name=name)]) == {}


PATHS = [
    ("metadata",),
    ("spec",),
    ("status",),
    ("metadata", "name"),
    ("metadata", "labels"),
    ("spec", "containers"),
    ("status", "phase"),
    ("status", "podIP"),
    ("status", "conditions"),
]
INVALID_VALUES = st.one_of(
    st.none(), st.integers(), st.text(), st.lists(st.none()), st.lists(st.integers()), st.just({})
)


@given(st.sampled_from(PATHS), INVALID_VALUES, st.sampled_from(list(StageName)))
def test_an_invalid_field_of_one_pod_does_not_affect_the_other_pods(path, invalid, stage):
    broken = pod(stage, name="broken")
    place = broken
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = invalid
    found = urls([broken, pod()])
    assert found["p"] == "http://10.1.2.3:9090/metrics"
    assert all(url.startswith("http://10.1.2.3:") for url in found.values())
    assert readiness_of([broken, pod()])["p"] is True
