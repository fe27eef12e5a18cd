"""Connections that NetworkPolicies allow: for ingress, with selectors of labels, blocks of addresses and single ports.

No network of the tests enforces policies. This is a short form of the definition in the Kubernetes API: a pod that
no policy selects accepts all connections; any other pod accepts those that a rule of one of its policies allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Peer:
    """The properties of a pod that policies use; without a namespace, a peer that is not a pod, with its address."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    address: str = ""


def may_connect(policies: Iterable[Mapping[str, Any]], *, source: Peer, target: Peer, port: int) -> bool:
    """Whether the source may open a TCP connection to that port of the target."""
    mine = [
        policy
        for policy in policies
        if policy["metadata"]["namespace"] == target.namespace
        and "Ingress" in policy["spec"]["policyTypes"]
        and _selects(policy["spec"]["podSelector"], target.labels)
    ]
    rules = [rule for policy in mine for rule in policy["spec"].get("ingress", ())]
    return not mine or any(_allows(rule, source=source, target=target, port=port) for rule in rules)


def _allows(rule: Mapping[str, Any], *, source: Peer, target: Peer, port: int) -> bool:
    ports = [known["port"] for known in rule.get("ports", ()) if _plain(known)["protocol"] == "TCP"]
    if rule.get("ports") and port not in ports:
        return False
    peers = rule.get("from", ())
    return not peers or any(_is_peer(peer, source=source, target=target) for peer in peers)


def _is_peer(peer: Mapping[str, Any], *, source: Peer, target: Peer) -> bool:
    assert peer
    if "ipBlock" in peer:
        assert peer["ipBlock"].keys() == {"cidr"}, peer
        return bool(source.address) and ip_address(source.address) in ip_network(peer["ipBlock"]["cidr"])
    assert peer.keys() <= {"podSelector", "namespaceSelector"}, peer
    if not source.namespace:
        return False
    if "namespaceSelector" in peer:
        if not _selects(peer["namespaceSelector"], source.namespace_labels):
            return False
    elif source.namespace != target.namespace:
        return False
    return _selects(peer.get("podSelector", {}), source.labels)


def _plain(port: Mapping[str, Any]) -> Mapping[str, Any]:
    assert port.keys() == {"protocol", "port"}, port
    assert isinstance(port["port"], int), port
    return port


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels", "matchExpressions"}, selector
    for expression in selector.get("matchExpressions", ()):
        assert expression == {"key": expression["key"], "operator": "Exists"}, expression
        if expression["key"] not in labels:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()
