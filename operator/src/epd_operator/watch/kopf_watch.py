"""Runs kopf to watch objects. Each event only adds a key to the queue; kopf never writes to objects."""

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
"""Time for kopf to end its watches. Some of its tasks may never end."""


def register(registry: kopf.OperatorRegistry, *, queue: WorkQueue[Key], kinds: Sequence[Kind] = WATCHED_KINDS) -> None:
    """Register handlers for EPDDeployments and for the objects of the other kinds that the operator created."""

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
    """Key of the EPDDeployment that owns the child, from its controller reference or else from its label."""
    metadata = child["metadata"]
    owner = controller_of(child) or {}
    name = owner["name"] if owner.get("kind") == KIND else (metadata.get("labels") or {}).get(DEPLOYMENT_LABEL)
    # The API server accepts any text as the name of an owner, but the name becomes part of a URL path.
    return Key(metadata["namespace"], name) if name and OBJECT_NAME.fullmatch(name) else None


def configure(settings: kopf.OperatorSettings) -> None:
    """Set the options of kopf. docs/decisions/0001-kopf-only-watches.md explains them."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    # The kinds are known in advance. Scanning would need rights for CustomResourceDefinitions and namespaces.
    settings.scanning.disabled = True
    settings.watching.server_timeout = 600
    settings.watching.client_timeout = 660
    settings.watching.connect_timeout = 30
    settings.watching.reconnect_backoff = 1
    settings.watching.chunk_size = 500
    for kind in (*CHILD_KINDS, POD):
        # The API server sends only objects of the operator.
        settings.watching.label_selectors[kind.plural] = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 10
    settings.execution.max_workers = 1
    settings.persistence.finalizer = "epd.dev/unused"
    # Otherwise kopf could kill the process while it releases the Lease. The kubelet kills it if it does not exit.
    settings.process.ultimate_exiting_timeout = None


async def watch(
    *,
    queue: WorkQueue[Key],
    namespaces: Sequence[str],
    on_started: Callable[[], object],
    kinds: Sequence[Kind] = WATCHED_KINDS,
) -> None:
    """Watch until cancelled.

    Args:
        queue: receives the keys of changed objects.
        kinds: kinds to watch.
        namespaces: namespaces to watch; an empty list means all namespaces.
        on_started: called after kopf has started and has replaced the signal handlers of the process.

    Raises:
        Exception: kopf stopped, because a kind is not served any more or the operator lost the right to list it.
    """
    registry, settings, stop = kopf.OperatorRegistry(), kopf.OperatorSettings(), asyncio.Event()
    configure(settings)
    register(registry, queue=queue, kinds=kinds)
    _register_login(registry)
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=settings,
        standalone=True,
        # By default kopf looks up the name of the user, which fails for a numeric user without a name.
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
    """A set that contains every task.

    On exit, kopf cancels all tasks that were started after it, except the ignored ones. Here it must cancel none.
    """

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
