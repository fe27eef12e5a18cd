"""Requests of a ServiceAccount in the audit log, compared with the rights that RBAC grants it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@dataclass(frozen=True, order=True, kw_only=True)
class Use:
    """A request in the audit log.

    Attributes:
        resource: with its subresource after a slash.
        pod: the pod whose token was used, where the log has it.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""
    code: int = 200
    pod: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}.{self.group or 'core'} {self.namespace}/{self.name}: {self.code}"


@dataclass(frozen=True, order=True, kw_only=True)
class Grant:
    """One verb on one resource, as a rule of a role grants it.

    Attributes:
        name: the only object that it is granted on; empty means all.
        namespaces: where a binding grants it; empty means everywhere.
    """

    role: str
    verb: str
    group: str
    resource: str
    name: str = ""
    namespaces: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.verb} {self.resource}.{self.group or 'core'}"
        return f"{text} {self.name}".rstrip()

    def covers(self, use: Use) -> bool:
        """Whether the request needs this grant or one like it."""
        return (
            (self.verb, self.group, self.resource) == (use.verb, use.group, use.resource)
            and self.name in ("", use.name)
            and (not self.namespaces or use.namespace in self.namespaces)
        )


def user_of(namespace: str, account: str) -> str:
    """The name that a ServiceAccount has as a user."""
    return f"system:serviceaccount:{namespace}:{account}"


def uses(events: Iterable[Mapping[str, Any]], *, user: str) -> set[Use]:
    """Requests of a user, without discovery of the API and other requests that every user may make.

    Args:
        events: the audit log.
        user: name of the user; a shell pattern.

    An apply that creates an object needs the right to create it too, which the log does not show separately.
    """
    found = set()
    for event in events:
        target = event.get("objectRef")
        if not fnmatchcase(event["user"]["username"], user) or not target or not target.get("resource"):
            continue
        code = int((event.get("responseStatus") or {}).get("code") or 0)
        subresource = target.get("subresource")
        extra = event["user"].get("extra") or {}
        pods = extra.get("authentication.kubernetes.io/pod-name") or [""]
        for verb in {event["verb"], *(["create"] if code == 201 else [])}:
            found.add(
                Use(
                    verb=verb,
                    group=target.get("apiGroup", ""),
                    resource=target["resource"] + (f"/{subresource}" if subresource else ""),
                    namespace=target.get("namespace", ""),
                    name=target.get("name", ""),
                    code=code,
                    pod=pods[0],
                )
            )
    return found


def grants(objects: Iterable[Mapping[str, Any]], *, namespace: str, account: str) -> set[Grant]:
    """Grants of bindings among the objects to a ServiceAccount through roles among the objects.

    Raises:
        KeyError: a binding refers to a role that is not among them.
    """
    found = list(objects)
    roles = {_place(o): o for o in found if o["kind"] in ("Role", "ClusterRole")}
    namespaces: dict[tuple[str, str, str], set[str]] = {}
    for binding in found:
        if not _binds(binding, namespace=namespace, account=account):
            continue
        within = binding["metadata"].get("namespace", "")
        reference = binding["roleRef"]
        role = (reference["kind"], within if reference["kind"] == "Role" else "", reference["name"])
        namespaces.setdefault(role, set()).add(within)
    return {
        grant
        for role, within in namespaces.items()
        for grant in of_rules(
            roles[role]["rules"], role=role[2], namespaces=() if "" in within else tuple(sorted(within))
        )
    }


def _place(role: Mapping[str, Any]) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _binds(binding: Mapping[str, Any], *, namespace: str, account: str) -> bool:
    if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
        return False
    wanted = ("ServiceAccount", namespace, account)
    return any((s["kind"], s.get("namespace"), s["name"]) == wanted for s in binding.get("subjects") or ())


def of_rules(rules: Iterable[Mapping[str, Any]], *, role: str, namespaces: tuple[str, ...] = ()) -> Iterator[Grant]:
    """Single grants of a role's rules."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield Grant(
                            role=role, verb=verb, group=group, resource=resource, name=name, namespaces=namespaces
                        )


def refused(used: Iterable[Use]) -> list[str]:
    """Requests that the API server refused because of a missing right, as text."""
    return sorted({str(use) for use in used if use.code == 403})


def unused(granted: Iterable[Grant], used: Iterable[Use]) -> set[str]:
    """Grants that no request needed, as text."""
    asked = {use for use in used if use.code != 403}
    return {str(grant) for grant in granted if not any(grant.covers(use) for use in asked)}
