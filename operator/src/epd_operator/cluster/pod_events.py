"""Reads Events of pods that do not start and whose status does not say why. It reads few of them, and not often.

The API server does not keep Events in its watch cache, so each list request reads all Events of the namespace from etcd
(https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubeapiserver/default_storage_factory_builder.go). Events are
not watched either: an object with such a pod is reconciled again when its Events may be read again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, RefusedError
from epd_operator.objects.identity import Key, stage_of
from epd_operator.objects.kinds import CORE_EVENT
from epd_operator.objects.pod_events import PodEvent, events_about, silent_since
from epd_operator.plan.observation import KubernetesObject, Observation

logger = logging.getLogger(__name__)

MIN_AGE_SECONDS = 15.0
"""A pod that waits for less time is starting normally."""
MIN_INTERVAL_SECONDS = 30.0
MAX_INTERVAL_SECONDS = 300.0
"""As often as the resync."""
PODS_OF_A_STAGE = 2
"""The pods of a stage usually wait for the same thing. The oldest are read."""
MAX_EVENTS = 100
"""Events of one pod: Kubernetes merges repeated ones, so a pod has 5 to 20."""


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """What was read about one pod, and when."""

    at: datetime
    events: tuple[PodEvent, ...]


class PodEvents:
    """Keeps the last reading of each pod that waits, of a few pods of each object."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._readings: dict[Key, Mapping[str, _Reading]] = {}
        self._refusal_logged = False

    async def read(
        self, key: Key, *, observation: Observation, now: datetime
    ) -> tuple[tuple[PodEvent, ...], float | None]:
        """The Events of waiting pods of one object, the oldest first.

        Returns:
            The Events, and the seconds until the next reconcile should read them; None if no pod waits.
        """
        waiting = list(_longest_waiting(observation.pods))
        known = self._readings.get(key, {})
        readings = {
            uid: reading
            for uid, reading in await asyncio.gather(
                *(self._reading(pod, since=since, known=known, now=now) for pod, since in waiting)
            )
            if reading is not None
        }
        if readings:
            self._readings[key] = readings
        else:
            self.forget(key)
        events = (event for reading in readings.values() for event in reading.events)
        delays = [_seconds_until_next(readings.get(_uid(pod)), since=since, now=now) for pod, since in waiting]
        return tuple(sorted(events, key=lambda event: event.last)), min(delays, default=None)

    def forget(self, key: Key) -> None:
        """Drop what was read about an object."""
        self._readings.pop(key, None)

    async def _reading(
        self, pod: KubernetesObject, *, since: datetime, known: Mapping[str, _Reading], now: datetime
    ) -> tuple[str, _Reading | None]:
        """The uid of the pod and its last reading, which is renewed if it is due."""
        uid = _uid(pod)
        last = known.get(uid)
        if _seconds_until_next(last, since=since, now=now) > 0:
            return uid, last
        return uid, _Reading(at=now, events=await self._list(pod, before=last.events if last is not None else ()))

    async def _list(self, pod: KubernetesObject, *, before: tuple[PodEvent, ...]) -> tuple[PodEvent, ...]:
        """The Events of a pod now; those before if they cannot be read, so that the status does not change."""
        query = {
            "fieldSelector": f"involvedObject.uid={_uid(pod)}",
            "limit": str(MAX_EVENTS),
            # Any version: an API server that keeps Events in memory need not ask etcd.
            "resourceVersion": "0",
        }
        try:
            page = await self._cluster.list_page(CORE_EVENT, namespace=pod["metadata"]["namespace"], query=query)
        except ClusterError as error:
            self._log(error)
            return before
        found = page.get("items")
        return events_about(pod, found if isinstance(found, list) else ())

    def _log(self, error: ClusterError) -> None:
        if not isinstance(error, RefusedError):
            logger.info("Events of a pod could not be read: %s", error)
        elif not self._refusal_logged:
            self._refusal_logged = True
            logger.warning(
                "Events of pods cannot be read, so the status lacks causes that only Events have, such as a missing "
                "ConfigMap: upgrade the chart, whose role allows it: %s",
                error,
            )


def _longest_waiting(pods: Iterable[KubernetesObject]) -> Iterator[tuple[KubernetesObject, datetime]]:
    """Of each stage the pods that have waited longest, with the start of their wait."""
    waiting = [(pod, since) for pod in pods if (since := silent_since(pod)) is not None]
    number: dict[tuple[str | None, str], int] = {}
    for pod, since in sorted(waiting, key=lambda one: (one[1], str(one[0]["metadata"]["name"]))):
        stage = stage_of(pod)
        number[stage] = number.get(stage, 0) + 1
        if number[stage] <= PODS_OF_A_STAGE:
            yield pod, since


def _seconds_until_next(last: _Reading | None, *, since: datetime, now: datetime) -> float:
    """Seconds until the Events of a pod should be read; 0 or less if they should be read now.

    A pod that has waited longer is read less often. A clock that was set back causes no longer wait than that.
    """
    waited = (now - since).total_seconds()
    if last is None:
        return MIN_AGE_SECONDS - waited
    interval = min(max(MIN_INTERVAL_SECONDS, waited / 10), MAX_INTERVAL_SECONDS)
    return min(interval, interval - (now - last.at).total_seconds())


def _uid(pod: KubernetesObject) -> str:
    return str(pod["metadata"]["uid"])
