"""Which pages are read: one of each live pod, at a port that the operator gave it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.api.v1alpha1.stages import MAX_GROUP_ENCODERS
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import COMPONENT_LABEL
from epd_operator.objects.pods import is_live, is_ready, items, mapping, name_of
from epd_operator.plan.pods.process import HTTP_PORT, SYSTEM_PORT

MAX_GROUP_PROCESSES = MAX_GROUP_ENCODERS + 1
"""Encoders and PD."""

_METADATA_SERVICES = frozenset(
    ipaddress.ip_address(text)
    for text in ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)
"""Of clouds, outside of the link-local range."""
_EMBEDDING_IPV4 = (
    ipaddress.ip_network("64:ff9b::/96"),
    ipaddress.ip_network("2002::/16"),
    ipaddress.ip_network("::/96"),
)
"""Translated to IPv4 on the way, perhaps to an address that would be refused."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One page to read.

    A group's is that of its PD process, which comes last: every request passes it, requests with images pass an
    encoder of the same pod as well, so that adding up the pages would count those twice.

    Attributes:
        pod: name of the pod.
        stage: its stage, which says what to look for.
        ready: whether it takes requests; pages of others are not read.
        url: where the page is.
    """

    pod: str
    stage: StageName
    ready: bool
    url: str


def targets_of(pods: Iterable[Mapping[str, Any]]) -> tuple[Target, ...]:
    """Pages of all live pods that have an address, by pod name.

    Pods are taken as the API server returns them. Whoever may write a pod's status may write nonsense: only the
    address is taken from there, and only if it is one.
    """
    targets = []
    for pod in pods:
        name, stage, host = name_of(pod), _stage(pod), _host(pod)
        port = _port(pod, stage=stage)
        if name and stage is not None and host is not None and port is not None and is_live(pod):
            url = f"http://{host}:{port}/metrics"
            targets.append(Target(pod=name, stage=stage, ready=is_ready(pod), url=url))
    return tuple(sorted(targets, key=lambda target: target.pod))


def readiness_of(pods: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Whether each live pod takes requests, by name; pods that wait for an address or a node are among them."""
    return {name: is_ready(pod) for pod in pods if is_live(pod) and (name := name_of(pod))}


def _stage(pod: Mapping[str, Any]) -> StageName | None:
    label = mapping(mapping(pod.get("metadata")).get("labels")).get(COMPONENT_LABEL)
    return next((stage for stage in StageName if stage == label), None)


def _host(pod: Mapping[str, Any]) -> str | None:
    """The pod's address as it stands in a URL, or None where it has none that could be a pod's."""
    text = mapping(pod.get("status")).get("podIP")
    if not isinstance(text, str):
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # The operator itself, cloud metadata services and the like are no pods.
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        return None
    if address in _METADATA_SERVICES:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    # A zone could hold any text, and IPv4 in IPv6's clothes would evade the checks above.
    disguised = address.ipv4_mapped is not None or any(address in network for network in _EMBEDDING_IPV4)
    return None if address.scope_id is not None or disguised else f"[{address}]"


def _port(pod: Mapping[str, Any], *, stage: StageName | None) -> int | None:
    if stage is StageName.FRONTEND:
        return HTTP_PORT
    if stage is not StageName.GROUP:
        return SYSTEM_PORT
    processes = _group_processes(pod)
    return SYSTEM_PORT + processes - 1 if processes else None


def _group_processes(pod: Mapping[str, Any]) -> int:
    """How many processes the group has: its ports are named ``system-0`` and up. Their numbers are not used."""
    containers = items(mapping(pod.get("spec")).get("containers"))
    names = {port.get("name") for container in containers for port in items(container.get("ports"))}
    count = 0
    while count < MAX_GROUP_PROCESSES and f"system-{count}" in names:
        count += 1
    return count
