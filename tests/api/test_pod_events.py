"""Events of pods on a real API server: found by the uid of the pod, limited, and optional."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from epd_operator.cluster import pod_events
from epd_operator.cluster.client import connect
from epd_operator.cluster.pod_events import PodEvents
from epd_operator.objects.identity import Identity, Key
from epd_operator.objects.kinds import CORE_EVENT, EVENT
from epd_operator.objects.pod_events import PodEvent
from epd_operator.plan.observation import Observation
from support.installed_operator import token_of
from support.operated import World

SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def waiting(world: World, uid: str = "pod-1") -> dict[str, Any]:
    metadata = {"name": f"name-of-{uid}", "namespace": world.namespace, "uid": uid}
    return {"metadata": metadata, "status": {"conditions": [SCHEDULED]}}


async def say(world: World, message: str, *, uid: str = "pod-1") -> None:
    """An Event as a kubelet writes it."""
    time = NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {
        "metadata": {"generateName": "p-"}, "reason": "FailedMount", "message": message, "type": "Warning",
        "involvedObject": {"kind": "Pod", "namespace": world.namespace, "name": f"name-of-{uid}", "uid": uid},
        "source": {"component": "kubelet"}, "count": 2, "firstTimestamp": time, "lastTimestamp": time,
    }  # fmt: skip
    await world.cluster.create(CORE_EVENT, namespace=world.namespace, body=body)


async def say_in_the_new_form(world: World, message: str) -> None:
    """An Event as a scheduler writes it."""
    time = (NOW + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {
        "metadata": {"generateName": "p-"}, "reason": "FailedScheduling", "note": message, "type": "Warning",
        "regarding": {"kind": "Pod", "namespace": world.namespace, "name": "name-of-pod-1", "uid": "pod-1"},
        "reportingController": "default-scheduler", "reportingInstance": "s-1", "action": "Scheduling",
        "eventTime": time, "series": {"count": 3, "lastObservedTime": time},
    }  # fmt: skip
    await world.cluster.create(EVENT, namespace=world.namespace, body=body)


async def read(reader: PodEvents, world: World, *pods: dict[str, Any]) -> list[PodEvent]:
    identity = Identity(name="qwen", namespace=world.namespace, uid="u-1")
    observation = Observation(identity=identity, generation=1, pods=pods or (waiting(world),))
    return list((await reader.read(Key(world.namespace, "qwen"), observation=observation, now=NOW))[0])


async def test_events_of_both_forms_are_found_by_the_uid_of_the_pod(world: World) -> None:
    await say(world, "no such ConfigMap")
    await say(world, "another pod", uid="pod-2")
    await say_in_the_new_form(world, "no node")
    mount, scheduling = await read(PodEvents(world.cluster), world)
    assert (mount.pod, mount.reason, mount.message) == ("name-of-pod-1", "FailedMount", "no such ConfigMap")
    assert (mount.component, mount.count, mount.last) == ("kubelet", 2, NOW)
    assert (scheduling.reason, scheduling.message, scheduling.count) == ("FailedScheduling", "no node", 3)
    assert (scheduling.component, scheduling.last) == ("default-scheduler", NOW + timedelta(seconds=1))


async def test_the_server_sends_only_a_limited_number_of_events(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_events, "MAX_EVENTS", 3)
    for number in range(5):
        await say(world, f"number {number}")
    world.requests.clear()
    assert len(await read(PodEvents(world.cluster), world)) == 3
    assert world.requests == {"LIST Event": 1}


async def test_without_the_right_to_list_events_nothing_is_read_and_it_is_logged_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    accounts = f"/api/v1/namespaces/{world.namespace}/serviceaccounts"
    assert world.server.client.create(accounts, {"metadata": {"name": "operator"}}).ok
    config = json.loads(world.server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token_of(world.server, namespace=world.namespace, account="operator")}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    await say(world, "no such ConfigMap")
    async with connect() as limited:
        with caplog.at_level(logging.WARNING):
            assert await read(PodEvents(limited), world, waiting(world), waiting(world, uid="pod-2")) == []
    (record,) = caplog.records
    assert 'cannot list resource "events"' in record.getMessage()
