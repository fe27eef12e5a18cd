"""The metrics pages to read: one page of each live pod, at a port that the operator assigned."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.api.v1alpha1.stages import MAX_GROUP_ENCODERS
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import COMPONENT_LABEL
from epd_operator.objects.pods import is_live, is_ready, name_of
from epd_operator.plan.pods.process import GROUP_SYSTEM_PORT_NAME, HTTP_PORT, SYSTEM_PORT

MAX_GROUP_PROCESSES = MAX_GROUP_ENCODERS + 1
"""Encoders and the PD process."""

_METADATA_SERVICES = frozenset(
    ipaddress.ip_address(text)
    for text in ("168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254")
)
"""Metadata services of clouds that are outside of the link-local range."""
_EMBEDDING_IPV4 = (
    ipaddress.ip_network("64:ff9b::/96"),
    ipaddress.ip_network("2002::/16"),
    ipaddress.ip_network("::/96"),
)
"""IPv6 networks whose addresses contain an IPv4 address. The checks below would not see that address."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """The metrics page of a pod.

    In a pod of a group, this is the page of the PD process. All requests pass it, but requests with images also pass an
    encoder of the same pod. The sum over all pages of the pod would count these requests twice.

    Attributes:
        pod: name of the pod.
        stage: stage of the pod, which determines the metrics to read.
        ready: whether the pod is ready; pages of other pods are not read.
        url: URL of the page.
    """

    pod: str
    stage: StageName
    ready: bool
    url: str


def targets_of(pods: Iterable[Mapping[str, Any]]) -> tuple[Target, ...]:
    """Pages of all live pods with an IP address, sorted by pod name.

    Clients that can write the status of pods may write anything into it. So only the IP address is used, after checks.
    """
    targets = []
    for pod in pods:
        name, stage, host = name_of(pod), _stage(pod), address_of(pod)
        port = _port(pod, stage=stage)
        if name and stage is not None and host is not None and port is not None and is_live(pod):
            url = f"http://{host}:{port}/metrics"
            targets.append(Target(pod=name, stage=stage, ready=is_ready(pod), url=url))
    return tuple(sorted(targets, key=lambda target: target.pod))


def readiness_of(pods: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Readiness of each live pod, by name. This includes pods without an IP address or a node."""
    return {name: is_ready(pod) for pod in pods if is_live(pod) and (name := name_of(pod))}


def _stage(pod: Mapping[str, Any]) -> StageName | None:
    label = mapping(mapping(pod.get("metadata")).get("labels")).get(COMPONENT_LABEL)
    return next((stage for stage in StageName if stage == label), None)


def address_of(pod: Mapping[str, Any]) -> str | None:
    """The IP address of the pod in the form for a URL. None if it has none, or one that cannot belong to a pod."""
    text = mapping(pod.get("status")).get("podIP")
    if not isinstance(text, str):
        return None
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # Never send requests to the operator itself or to cloud metadata services.
    if address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified:
        return None
    if address in _METADATA_SERVICES:
        return None
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    # A scope ID can contain any text. An IPv4 address inside an IPv6 address would bypass the checks above.
    contains_ipv4 = address.ipv4_mapped is not None or any(address in network for network in _EMBEDDING_IPV4)
    return None if address.scope_id is not None or contains_ipv4 else f"[{address}]"


def _port(pod: Mapping[str, Any], *, stage: StageName | None) -> int | None:
    if stage is StageName.FRONTEND:
        return HTTP_PORT
    if stage is not StageName.GROUP:
        return SYSTEM_PORT
    processes = _group_processes(pod)
    return SYSTEM_PORT + processes - 1 if processes else None


def _group_processes(pod: Mapping[str, Any]) -> int:
    """Number of processes of the group, from the names of its ports: ``system-0``, ``system-1`` and so on."""
    containers = items(mapping(pod.get("spec")).get("containers"))
    names = {port.get("name") for container in containers for port in items(container.get("ports"))}
    count = 0
    while count < MAX_GROUP_PROCESSES and GROUP_SYSTEM_PORT_NAME.format(slot=count) in names:
        count += 1
    return count
