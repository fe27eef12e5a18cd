"""Decides the replicas of scaled stages, again and again, and wakes the reconciler when a decision changes.

The reconciler hands over what it saw of an object (``watch``) and takes the decisions back (``decisions``). Between
two passes nothing is read from the API server: pods that come, go or become ready cause a pass of their own.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from epd_operator.plan.observation import KubernetesObject
from epd_operator.plan.scaling.model import PodLoad
from epd_operator.runtime.keys import Key

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
CONCURRENT_ROUNDS = 16

Measure = Callable[[Key, Sequence[KubernetesObject]], Awaitable[Mapping[str, PodLoad]]]
"""Reads the loads of pods; a pod whose metrics could not be read has a load without numbers."""
