"""Reads the nodes periodically, once for all objects, and compares them with what the pods of the objects need."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError, RefusedError
from epd_operator.cluster.nodes import read_nodes
from epd_operator.objects.identity import Key
from epd_operator.objects.nodes import Nodes
from epd_operator.plan.status.preflight import PodNeeds, problem_of
from epd_operator.plan.status.problem import Problem

logger = logging.getLogger(__name__)

CHECK_SECONDS = 60.0
SECONDS_PER_NODE = 0.06
"""With more than 1,000 nodes the checks are rarer, so that the API server sends at most about 1 MB/s."""


@dataclass(frozen=True, eq=False)
class _Reading:
    """The nodes at one moment, and the problems that were computed from them, by the key of the needs."""

    nodes: Nodes
    found: dict[str, Problem | None] = field(default_factory=dict)

    def problem(self, needs: PodNeeds) -> Problem | None:
        if needs.key not in self.found:
            self.found[needs.key] = problem_of(needs, nodes=self.nodes)
        return self.found[needs.key]


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What was last asked for an object, and the answer."""

    needs: tuple[PodNeeds, ...]
    answer: Problem | None


class NodeCheck:
    """Keeps two readings: a problem is reported only if both show it, so that no short change of nodes is reported.

    Device plugins and GPU feature discovery, for example, remove resources and labels for seconds while they restart.
    """

    def __init__(self, cluster: Cluster, *, enqueue: Callable[[Key], None]) -> None:
        self._cluster = cluster
        self._enqueue = enqueue
        self._readings: tuple[_Reading, ...] = ()
        self._has_answer = False
        self._asked: dict[Key, _Asked] = {}

    def problem(self, key: Key, *, needs: Sequence[PodNeeds], before: Problem | None) -> Problem | None:
        """Why no node can run pods of an object; None if there is no reason, or if nodes may not be read.

        Args:
            key: the object.
            needs: what its pods need.
            before: the problem that its status shows, which is kept until the nodes have been read.
        """
        answer = self._answer(needs) if self._has_answer else before
        self._asked[key] = _Asked(needs=tuple(needs), answer=answer)
        return answer

    def forget(self, key: Key) -> None:
        """Drop what is known of an object that does not exist any more."""
        self._asked.pop(key, None)

    async def run(self, *, random: Callable[[], float]) -> None:
        """Check periodically, until cancelled."""
        while True:
            await self.check()
            nodes = len(self._readings[-1].nodes.nodes) if self._readings else 0
            await asyncio.sleep(max(CHECK_SECONDS, nodes * SECONDS_PER_NODE) * (0.75 + random() / 2))

    async def check(self) -> None:
        """Read the nodes once, and add the objects to the queue whose answer has changed."""
        try:
            nodes = await read_nodes(self._cluster)
        except (NotFoundError, RefusedError) as error:
            if self._readings or not self._has_answer:
                logger.warning(
                    "the nodes are not compared with the needs of pods, because they cannot be read: %s", error
                )
            self._readings = ()
        except ClusterError as error:
            logger.debug("the nodes could not be read, the last ones are used: %s", error)
            return
        else:
            self._remember(nodes)
        self._has_answer = True
        for key, asked in tuple(self._asked.items()):
            if self._answer(asked.needs) != asked.answer:
                self._enqueue(key)
            await asyncio.sleep(0)

    def _remember(self, nodes: Nodes) -> None:
        last = self._readings[-1:]
        self._readings = (*last, _Reading(_sharing(nodes, last)))

    def _answer(self, needs: Sequence[PodNeeds]) -> Problem | None:
        """The first problem of the last reading that the one before shows too, if there was one."""
        for need in needs:
            found = [reading.problem(need) for reading in self._readings]
            if found and all(found):
                return found[-1]
        return None


def _sharing(nodes: Nodes, readings: Sequence[_Reading]) -> Nodes:
    """The nodes; those that have not changed are shared with the earlier reading, to save memory."""
    known = {node.name: node for reading in readings for node in reading.nodes.nodes}
    shared = tuple(known[node.name] if known.get(node.name) == node else node for node in nodes.nodes)
    return replace(nodes, nodes=shared)
