"""One EPDDeployment between two revisions, on a real API server without controllers: the nodes are played here.

Every request of the operator passes one hook, so that the operator can be killed after any of its writes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from epd_operator.cluster.client import Cluster, Request, connect
from epd_operator.objects.identity import Identity, Key
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, SERVICE
from epd_operator.plan.children.registry import CHILD_KINDS
from epd_operator.plan.drift import PLAN_HASH_ANNOTATION
from epd_operator.plan.observation import Answered, Comparison, Observation, Verdict
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.rollout.steps import Phase
from epd_operator.reconcile.reconciler import Reconciler, utc_now
from support.operated import PRIMARIES, READS, World
from support.specs import raw_spec

NAME = "qwen"
SELECTOR = f"epd.dev/deployment={NAME}"
REVISION = "epd.dev/revision"
MAX_RECONCILES = 60
_OF_ONE_OBJECT = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
"""Metadata that differ between two objects of the same content."""


class KilledError(BaseException):
    """The process of the operator ends here."""


@dataclass
class Verifier:
    """Stands for the requests of the operator to a new revision. Like the real one, it keeps nothing over a restart.

    Attributes:
        passes: whether the revision answers; None: no answer yet.
        message: what the answer says.
    """

    passes: bool | None = True
    message: str = "asked for a word"
    found: Verdict | None = None

    def verdict(self, _key: Key, *, identity: Identity) -> Verdict | None:  # noqa: ARG002
        return self.found

    def update(self, _key: Key, *, rollout: Rollout, observation: Observation) -> None:  # noqa: ARG002
        is_asked = rollout.phase is Phase.VERIFYING and self.passes is not None
        name = rollout.target.name
        self.found = Verdict(revision=name, passed=bool(self.passes), message=self.message) if is_asked else None

    def forget(self, _key: Key) -> None:
        self.found = None


@dataclass
class Comparer:
    """Stands for the reader of the metrics of two revisions that share the traffic.

    Attributes:
        fails: whether the new revision answers with errors.
    """

    fails: bool = False
    found: Comparison | None = None

    def comparison(self, _key: Key, *, identity: Identity) -> Comparison | None:  # noqa: ARG002
        return self.found

    def update(self, _key: Key, *, rollout: Rollout, observation: Observation) -> None:  # noqa: ARG002
        new, old = Answered(requests=100, failed=50 if self.fails else 0), Answered(requests=900, failed=1)
        self.found = Comparison(revision=rollout.target.name, new=new, old=old) if rollout.is_shared else None

    def forget(self, _key: Key) -> None:
        self.found = None


@dataclass
class Switch:
    """The object, its operator, and the nodes.

    Attributes:
        verifier: of the present process of the operator.
        writes: writes of the present reconcile, as verb and kind.
        total: number of all writes.
        kill_after: the number of the write after which the operator is killed once; 0: never.
        now: the time of the operator; `finish` lets it pass.
        waits: whether the last reconcile asked for another one, unless it does so as long as a child is refused.
    """

    world: World
    cluster: Cluster
    verifier: Verifier = field(default_factory=Verifier)
    comparer: Comparer = field(default_factory=Comparer)
    writes: list[str] = field(default_factory=list)
    total: int = 0
    kill_after: int = 0
    now: datetime = field(default_factory=utc_now)
    waits: bool = False

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """A new process of the operator."""
        self.verifier = Verifier(passes=self.verifier.passes, message=self.verifier.message)
        self.comparer = Comparer(fails=self.comparer.fails)
        self.reconciler = Reconciler(
            self.cluster, now=lambda: self.now, verification=self.verifier, comparer=self.comparer
        )

    def saw(self, request: Request) -> None:
        """Count a request; the operator is killed after the chosen one."""
        if request.verb in READS:
            return
        self.writes.append(f"{request.verb} {request.kind}")
        self.total += 1
        if self.total == self.kill_after:
            raise KilledError

    async def reconcile(self) -> list[str]:
        """Reconcile once; a killed operator is replaced by a new one. Returns the writes."""
        self.writes = []
        try:
            result = await self.reconciler.reconcile(Key(self.world.namespace, NAME))
            self.waits = result.requeue_after is not None and result.outcome != "refused"
        except KilledError:
            self.start()
        return self.writes

    async def settle(self) -> None:
        """Reconcile until nothing is written; the nodes do nothing."""
        for _ in range(MAX_RECONCILES):
            if not await self.reconcile():
                return
        raise AssertionError(f"still writing: {self.writes}, {await self.world.conditions()}")

    async def finish(self, *, check: Callable[[Mapping[str, Any]], None] = lambda _: None) -> None:
        """Reconcile, and act as the nodes, until neither changes anything.

        Args:
            check: is called with the Deployments after every reconcile, and after every change of the nodes.
        """
        for _ in range(MAX_RECONCILES):
            self.now += timedelta(seconds=10)
            is_quiet = not await self.reconcile()
            deployments = await self.deployments()
            check(deployments)
            late = [name for name, found in deployments.items() if not _is_reported(found)]
            for name in late:
                await self.world.report_ready(name)
            if late:
                check(await self.deployments())
            elif is_quiet and self.verifier.found is None and not self.waits:
                return
        raise AssertionError(f"not at rest: {self.writes}, {await self.world.conditions()}")

    async def deployments(self) -> dict[str, dict[str, Any]]:
        """The Deployments by name."""
        found = await self.world.cluster.list(DEPLOYMENT, namespace=self.world.namespace, selector=SELECTOR)
        return {child["metadata"]["name"]: child for child in found}

    async def replicas(self) -> dict[str, int]:
        """The replicas that each Deployment should have."""
        return {name: found["spec"]["replicas"] for name, found in (await self.deployments()).items()}

    async def service(self) -> dict[str, Any]:
        """The Service."""
        return await self.world.find(SERVICE, NAME)

    async def selected(self) -> str:
        """The revision in the selector of the Service."""
        return str((await self.service())["spec"]["selector"][REVISION])

    async def ready(self) -> tuple[str, str]:
        """Reason and message of the condition Ready."""
        condition = (await self.world.conditions())["Ready"]
        return condition["reason"], condition["message"]

    async def records(self) -> list[dict[str, Any]]:
        """The ControllerRevisions, the earliest first."""
        path = f"/apis/apps/v1/namespaces/{self.world.namespace}/controllerrevisions"
        return sorted(self.world.server.client.get(path).body["items"], key=lambda record: record["revision"])

    def replace_spec(self, spec: dict[str, Any]) -> None:
        """Replace the whole spec, as the user would."""
        path = f"{PRIMARIES.format(self.world.namespace)}/{NAME}"
        live = self.world.server.client.get(path).body
        live["spec"] = spec
        answer = self.world.server.client.request("PUT", path, live)
        assert answer.ok, answer.message

    async def content(self) -> dict[str, Any]:
        """Everything that belongs to the object, without what differs between two objects of the same content."""
        primary = await self.world.find(EPD_DEPLOYMENT, NAME)
        found = {"status": primary["status"]}
        for kind in CHILD_KINDS:
            for child in await self.world.cluster.list(kind, namespace=self.world.namespace, selector=SELECTOR):
                metadata = {k: v for k, v in child["metadata"].items() if k not in _OF_ONE_OBJECT}
                # It depends on the namespace.
                metadata.get("annotations", {}).pop(PLAN_HASH_ANNOTATION, None)
                found[f"{kind.kind} {metadata['name']}"] = {**child, "metadata": metadata, "status": None}
        for condition in found["status"]["conditions"]:
            condition.pop("lastTransitionTime")
        for child in found.values():
            for field_of_server in ("clusterIP", "clusterIPs"):
                child.get("spec", {}).pop(field_of_server, None)
        text = json.dumps(found).replace(self.world.namespace, "NAMESPACE").replace(primary["metadata"]["uid"], "UID")
        content: dict[str, Any] = json.loads(text)
        return content


def _is_reported(deployment: Mapping[str, Any]) -> bool:
    """Whether the nodes have reported what the Deployment asks for."""
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    observed = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return observed and (status.get("readyReplicas", 0), status.get("updatedReplicas", 0)) == (wanted, wanted)


@asynccontextmanager
async def operator_of(world: World) -> AsyncIterator[Switch]:
    """An operator with the rights of the present kubeconfig; there is no object yet."""

    def saw(request: Request) -> None:
        switch.saw(request)

    async with connect(on_request=saw) as cluster:
        switch = Switch(world=world, cluster=cluster)
        yield switch


@asynccontextmanager
async def new_switch(world: World, **spec: Any) -> AsyncIterator[Switch]:
    """An object that serves: all its stages are ready, and nothing is left to write."""
    async with operator_of(world) as switch:
        world.create(spec or raw_spec())
        await switch.finish()
        assert await switch.ready() == ("AllStagesReady", "all stages are ready")
        switch.total = 0
        yield switch
