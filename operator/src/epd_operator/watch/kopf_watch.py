"""kopf: what it watches, and how it is run. Every event only adds a key, so kopf writes nothing to any object."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import kopf

from epd_operator.api.v1alpha1.epddeployment import GROUP, KIND, PLURAL, VERSION
from epd_operator.objects.identity import DEPLOYMENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL, Key, controller_of
from epd_operator.objects.kinds import EPD_DEPLOYMENT, POD, Kind
from epd_operator.objects.pods import OBJECT_NAME
from epd_operator.plan.children.registry import CHILD_KINDS, WATCHED_KINDS
from epd_operator.reconcile.queue import WorkQueue

STOP_SECONDS = 10.0
"""For kopf to end its watches, which it does not always."""


def register(registry: kopf.OperatorRegistry, *, queue: WorkQueue[Key], kinds: Sequence[Kind] = WATCHED_KINDS) -> None:
    """Watch EPDDeployments, and what the operator makes of the other kinds."""

    async def on_primary(*, namespace: str | None, name: str, **_: Any) -> None:
        if namespace is not None:
            queue.add(Key(namespace, name))

    async def on_child(*, body: Mapping[str, Any], **_: Any) -> None:
        key = key_of_child(body)
        if key is not None:
            queue.add(key)

    kopf.on.event(GROUP, VERSION, PLURAL, registry=registry)(on_primary)
    for kind in kinds:
        if kind == EPD_DEPLOYMENT:
            continue
        group, _, version = kind.api_version.rpartition("/")
        kopf.on.event(group, version, kind.plural, registry=registry)(on_child)


def key_of_child(child: Mapping[str, Any]) -> Key | None:
    """Whose child an object is: by its controller, else by label."""
    metadata = child["metadata"]
    owner = controller_of(child) or {}
    name = owner["name"] if owner.get("kind") == KIND else (metadata.get("labels") or {}).get(DEPLOYMENT_LABEL)
    # The API server takes any text as the name of an owner, and this one becomes part of a path.
    return Key(metadata["namespace"], name) if name and OBJECT_NAME.fullmatch(name) else None


def configure(settings: kopf.OperatorSettings) -> None:
    """Settings of kopf; see docs/decisions/0001-kopf-only-watches.md for the reasons."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    # Kinds are known in advance; scanning would need rights on CustomResourceDefinitions and namespaces.
    settings.scanning.disabled = True
    settings.watching.server_timeout = 600
    settings.watching.client_timeout = 660
    settings.watching.connect_timeout = 30
    settings.watching.reconnect_backoff = 1
    settings.watching.chunk_size = 500
    for kind in (*CHILD_KINDS, POD):
        # Objects of strangers never reach this process.
        settings.watching.label_selectors[kind.plural] = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.execution.max_workers = 1
    settings.persistence.finalizer = "epd.dev/unused"
    # Would kill the process while the lease is being given up; the kubelet kills it if it does not end.
    settings.process.ultimate_exiting_timeout = None


async def watch(
    *,
    queue: WorkQueue[Key],
    namespaces: Sequence[str],
    on_started: Callable[[], object],
    kinds: Sequence[Kind] = WATCHED_KINDS,
) -> None:
    """Watch until cancelled; an empty list of namespaces means all.

    Args:
        queue: where keys go.
        kinds: what to watch.
        namespaces: what to watch.
        on_started: called when kopf has taken the signals of the process for itself.

    Raises:
        Exception: kopf gave up: a kind is not served any more, or may not be read.
    """
    registry, settings, stop = kopf.OperatorRegistry(), kopf.OperatorSettings(), asyncio.Event()
    configure(settings)
    register(registry, queue=queue, kinds=kinds)
    _register_login(registry)
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=settings,
        standalone=True,
        # kopf would ask for the user's name, which a container's numeric user lacks.
        identity=socket.gethostname(),  # type: ignore[arg-type]
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )
    on_started()
    running = asyncio.create_task(kopf.run_tasks(tasks, ignored=_AllTasks()))
    try:
        await asyncio.shield(running)
    finally:
        stop.set()
        await asyncio.wait([running], timeout=STOP_SECONDS)


class _AllTasks(Set[Any]):
    """kopf cancels every task that is younger than itself, unless told to ignore it."""

    def __contains__(self, task: object) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0


def _register_login(registry: kopf.OperatorRegistry) -> None:
    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
