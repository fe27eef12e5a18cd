"""The controllers and nodes of the model: Deployments get pods, pods get ready, fail and end, nodes are lost."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from epd_operator.objects.digests import digest
from epd_operator.objects.identity import controller_of
from epd_operator.objects.pods import has_ended, is_live, is_ready, is_terminating
from epd_operator.plan.observation import ChildKey
from support.model.store import Object, Store

NODES = 3
GRACE = timedelta(seconds=30)


@dataclass
class Nodes:
    """Acts on the store as the Deployment controller, the garbage collector and the kubelets do.

    Attributes:
        now: the present time.
        created: number of pods that were created.
        lost: nodes that do not answer.
    """

    store: Store
    now: datetime
    created: int = 0
    lost: frozenset[int] = frozenset()

    def pods(self) -> dict[str, Object]:
        """The pods by name."""
        return self.store.of_kind("Pod")

    def deployments(self) -> list[str]:
        """The Deployments that are controlled by another object; foreign ones have no pods here."""
        return sorted(n for n, d in self.store.of_kind("Deployment").items() if d["metadata"].get("ownerReferences"))

    def collect_garbage(self) -> None:
        """Delete the pods of Deployments that do not exist any more."""
        owners = {found["metadata"]["uid"] for found in self.store.of_kind("Deployment").values()}
        for name, pod in self.pods().items():
            if pod["metadata"]["annotations"]["deployment-uid"] not in owners:
                self.delete(name)

    def sync(self, name: str) -> None:
        """Act once as the controller of a Deployment: create and delete pods, and report."""
        deployment = self.store.of_kind("Deployment")[name]
        live = {key: pod for key, pod in self._pods_of(deployment).items() if is_live(pod)}
        template, wanted = _hash(deployment), int(deployment["spec"]["replicas"])
        new = [key for key, pod in live.items() if pod["metadata"]["labels"]["pod-template-hash"] == template]
        old = sorted((key for key in live if key not in new), key=lambda key: is_ready(live[key]))
        if deployment["spec"].get("paused") and old:
            # A paused Deployment is scaled, and no pod is replaced: here with the old template.
            template = live[old[0]]["metadata"]["labels"]["pod-template-hash"]
            new, old = [*old, *new], []
        surge, unavailable = _limits(deployment, wanted=wanted)
        for _ in range(min(wanted - len(new), wanted + surge - len(live)) if wanted > len(new) else 0):
            self._create(deployment, template=template)
        ready = sum(is_ready(pod) for pod in live.values())
        for key in old:
            if not is_ready(live[key]):
                self.delete(key)
            elif ready > wanted - unavailable or not wanted:
                self.delete(key)
                ready -= 1
        excess = sorted(new, key=lambda key: (is_ready(live[key]), key))[: max(len(new) - wanted, 0)]
        for key in excess:
            self.delete(key)
        self._report(name, template=_hash(deployment))

    def start(self, name: str) -> None:
        """All containers of a pod are ready, if its node answers."""
        if int(self.pods()[name]["spec"]["nodeName"][-1]) not in self.lost and is_live(self.pods()[name]):
            self._set_status(name, phase="Running", ready=True)

    def fail(self, name: str) -> None:
        """The containers of a pod are not ready any more."""
        if not has_ended(self.pods()[name]):
            self._set_status(name, phase="Running", ready=False)

    def end(self, name: str) -> None:
        """All containers of a pod have ended permanently, as after an eviction."""
        self._set_status(name, phase="Failed", ready=False)

    def delete(self, name: str) -> None:
        """Start the end of a pod; it can still finish its requests."""
        if not is_terminating(self.pods()[name]):
            until = (self.now + GRACE).strftime("%Y-%m-%dT%H:%M:%SZ")
            self.store.change(ChildKey("Pod", name), lambda pod: pod["metadata"].update(deletionTimestamp=until))

    def finish(self, name: str) -> None:
        """Remove a pod that has finished its requests, if its node answers."""
        pod = self.pods()[name]
        if is_terminating(pod) and int(pod["spec"]["nodeName"][-1]) not in self.lost:
            self.store.remove(ChildKey("Pod", name))

    def lose_node(self, number: int) -> None:
        """A node does not answer any more: its pods are not ready, and Kubernetes deletes them in vain."""
        self.lost |= {number}
        for name, pod in self.pods().items():
            if pod["spec"]["nodeName"] == f"node-{number}":
                self.fail(name)
                self.delete(name)

    def return_nodes(self) -> None:
        """All nodes answer again."""
        self.lost = frozenset()

    def rest(self) -> bool:
        """Act until nothing changes with these Deployments. Returns whether anything has changed."""
        before = self.store.versions
        for _ in range(50):
            version = self.store.versions
            self.collect_garbage()
            for name in self.deployments():
                self.sync(name)
            for name, pod in self.pods().items():
                if is_terminating(pod):
                    self.finish(name)
                elif is_live(pod) and not is_ready(pod):
                    self.start(name)
            if version == self.store.versions:
                return version != before
        raise AssertionError("the controllers of the model do not come to rest")

    def _pods_of(self, deployment: Object) -> dict[str, Object]:
        uid = deployment["metadata"]["uid"]
        return {
            name: pod for name, pod in self.pods().items() if pod["metadata"]["annotations"]["deployment-uid"] == uid
        }

    def _create(self, deployment: Object, *, template: str) -> None:
        self.created += 1
        name = f"{deployment['metadata']['name']}-{template}-{self.created}"
        node = next(
            number for number in range(self.created, self.created + NODES + 1) if number % NODES not in self.lost
        )
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": f"{deployment['metadata']['name']}-{template}",
            "uid": f"{deployment['metadata']['uid']}-{template}",
            "controller": True,
        }
        labels = {**deployment["spec"]["template"]["metadata"]["labels"], "pod-template-hash": template}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.store.namespace,
                "labels": labels,
                "annotations": {"deployment-uid": deployment["metadata"]["uid"]},
                "ownerReferences": [owner],
                "creationTimestamp": self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "spec": {"nodeName": f"node-{node}", "containers": []},
            "status": {"phase": "Pending"},
        }
        assert controller_of(pod) is not None
        self.store.put(ChildKey("Pod", name), pod)

    def _set_status(self, name: str, *, phase: str, ready: bool) -> None:
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
        self.store.change(ChildKey("Pod", name), lambda pod: pod.update(status=status))

    def _report(self, name: str, *, template: str) -> None:
        deployment = self.store.of_kind("Deployment")[name]
        live = [pod for pod in self._pods_of(deployment).values() if is_live(pod)]
        updated = [pod for pod in live if pod["metadata"]["labels"]["pod-template-hash"] == template]
        ready = sum(is_ready(pod) for pod in live)
        status = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": len(live),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": len(updated),
        }
        self.store.change(ChildKey("Deployment", name), lambda found: found.update(status=status))


def _hash(deployment: Object) -> str:
    return digest(deployment["spec"]["template"], length=8)


def _limits(deployment: Object, *, wanted: int) -> tuple[int, int]:
    rolling: dict[str, Any] = deployment["spec"].get("strategy", {}).get("rollingUpdate", {})
    surge, unavailable = (
        value if isinstance(value, int) else (wanted * int(str(value).rstrip("%")) + up) // 100
        for value, up in ((rolling.get("maxSurge", "25%"), 99), (rolling.get("maxUnavailable", "25%"), 0))
    )
    return (surge, unavailable) if surge or unavailable else (0, 1)
