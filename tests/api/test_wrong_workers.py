"""Workers that answer wrongly are evicted, on a real API server. What they answer is played here."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from epd_operator.objects.identity import INITIAL_REVISION, Identity, Key
from epd_operator.objects.pods import is_ready, name_of
from epd_operator.plan.observation import Findings, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.status.status_events import StatusEvent
from epd_operator.reconcile.reconciler import Reconciler, utc_now
from epd_operator.telemetry.reports import Report
from support.life_cycle import pods, run_all
from support.operated import World
from support.specs import raw_spec

REQUEST = {"name": "capital", "messages": [{"text": "France?"}], "expect": {"text": {"contains": "Paris"}}}
VERIFICATION = {"requests": [REQUEST], "replaceWrongWorkers": True}
LATER = timedelta(hours=1)


@dataclass
class Canary:
    """Stands for the requests of the operator to the workers."""

    found: Findings | None = None

    def findings(self, _key: Key, *, identity: Identity) -> Findings | None:  # noqa: ARG002
        return self.found

    def update(self, _key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Nothing is asked."""

    def forget(self, _key: Key) -> None:
        """Nothing is remembered."""


@dataclass
class Noticed:
    """Keeps the Events that a reconcile reports."""

    events: list[StatusEvent] = field(default_factory=list)

    def began(self, key: Key, *, generation: int, status: Any) -> None:
        """Not of interest here."""

    def computed(self, key: Key, report: Report) -> None:
        """Not of interest here."""

    def wrote(self, key: Key, report: Report) -> None:
        """Not of interest here."""

    def gone(self, key: Key) -> None:
        """Not of interest here."""

    def noticed(self, _identity: Identity, event: StatusEvent) -> None:
        self.events.append(event)


async def with_a_wrong_worker(world: World, **changes: Any) -> tuple[Reconciler, Noticed, str]:
    """A ready object, of whose workers one answers wrongly; an hour later."""
    world.create(raw_spec("Aggregated", verification=VERIFICATION, **changes))
    await run_all(world)
    wrong, right = sorted(name_of(pod) for pod in await pods(world, "worker"))
    canary = Canary(Findings(revision=INITIAL_REVISION, right=(right,), wrong={wrong: "got Rome"}))
    noticed = Noticed()
    return Reconciler(world.cluster, now=lambda: utc_now() + LATER, canary=canary, reports=noticed), noticed, wrong


async def test_a_worker_that_answers_wrongly_is_evicted_once_and_kubernetes_replaces_it(live_world: World) -> None:
    unmanaged = {"disruptionBudget": {"mode": "Unmanaged"}}
    reconciler, noticed, wrong = await with_a_wrong_worker(live_world, **unmanaged)
    result = await reconciler.reconcile(Key(live_world.namespace, "qwen"))
    assert f"eviction of Pod {wrong}" in result.written
    assert [event.note for event in noticed.events] == [f"pod {wrong} is evicted, because it answers wrongly: got Rome"]
    left = [name_of(pod) for pod in await pods(live_world, "worker") if is_ready(pod)]
    assert wrong not in left
    again = await reconciler.reconcile(Key(live_world.namespace, "qwen"))
    assert not [written for written in again.written if "eviction" in written]


async def test_a_disruption_budget_that_allows_none_keeps_the_worker_and_the_condition_names_it(world: World) -> None:
    # Without controllers nothing computes what the budget allows, so the API server refuses every eviction.
    world.create(raw_spec("Aggregated", verification=VERIFICATION))
    await world.settle()
    for stage in ("frontend", "worker"):
        await world.report_ready(f"qwen-{stage}")
    await world.settle()
    for name in ("a", "b"):
        create_worker(world, name)
    canary = Canary(Findings(revision=INITIAL_REVISION, right=("b",), wrong={"a": "got Rome"}))
    noticed = Noticed()
    reconciler = Reconciler(world.cluster, now=lambda: utc_now() + LATER, canary=canary, reports=noticed)
    result = await reconciler.reconcile(Key(world.namespace, "qwen"))
    assert not [written for written in result.written if "eviction" in written]
    assert not noticed.events
    assert {name_of(pod) for pod in await pods(world, "worker")} == {"a", "b"}
    ready = (await world.conditions())["Ready"]
    assert ready["reason"] == "WrongAnswers"
    assert "the operator evicts one such pod in each interval" in ready["message"]


def create_worker(world: World, name: str) -> None:
    """A ready pod of the Deployment of the workers, as its ReplicaSet would create it."""
    labels = {
        "epd.dev/deployment": "qwen",
        "app.kubernetes.io/component": "worker",
        "epd.dev/revision": "initial",
        "pod-template-hash": "h",
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "qwen-worker-h", "uid": "u-h", "controller": True}
    body = {
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "i"}], "serviceAccountName": "qwen-discovery"},
    }
    path = f"/api/v1/namespaces/{world.namespace}/pods"
    created = world.server.client.create(path, body)
    assert created.ok, created.message
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    patched = world.server.client.request(
        "PATCH", f"{path}/{name}/status", {"status": status}, content_type="application/merge-patch+json"
    )
    assert patched.ok, patched.message
