"""Applies one child, and compares the answer of the API server with the plan.

What still differs after an accepted apply was made by admission: a mutating policy or webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import InvalidError, TooLargeError
from epd_operator.objects.kinds import Kind
from epd_operator.objects.sizes import largest_field, size_of
from epd_operator.plan.children.registry import child_kind, kind_named
from epd_operator.plan.drift import Difference, differences, plan_hash, values_hash
from epd_operator.plan.foreign_fields import removal_of, with_whole_spec
from epd_operator.plan.observation import Admitted, KubernetesObject

CHILD_MANAGER = "epd-operator"
"""Field manager of server-side apply of children. Never change it: see `STATUS_MANAGER`."""


def admitted_of(child: Mapping[str, Any], answer: KubernetesObject) -> Admitted | None:
    """What admission has made of an applied child; None if nothing."""
    found = _differences(child, answer)
    if not found:
        return None
    return Admitted(
        uid=str(answer["metadata"].get("uid")),
        plan=plan_hash(child),
        values=values_hash(found),
        fields=tuple(str(difference) for difference in found),
    )


async def apply_child(cluster: Cluster, *, child: dict[str, Any], live: KubernetesObject | None) -> dict[str, Any]:
    """Apply a child, and remove what other clients have added to it. Returns the child as the API server has it.

    Raises:
        ClusterError: the child could not be applied.
    """
    kind, metadata = kind_named(child["kind"]), child["metadata"]
    answer = await _apply(cluster, kind, child=child, live=live)
    if live is None and _differences(child, answer):
        # A policy may act on new objects only. What an update does not keep must not be remembered: after a restart it
        # would be undone, and pods replaced.
        answer = await _apply(cluster, kind, child=_with_immutable_field(child, answer), live=answer)
    removal = removal_of(_differences(child, answer), live=answer)
    if not removal:
        return answer
    version = {"metadata": {"resourceVersion": answer["metadata"]["resourceVersion"]}}
    body = {**removal, **version}
    return await cluster.patch(kind, namespace=metadata["namespace"], name=metadata["name"], body=body)


async def recreate_child(cluster: Cluster, *, child: dict[str, Any], live: KubernetesObject | None) -> dict[str, Any]:
    """Delete a child with immutable fields that differ, and create it again at once.

    It is not deleted if admission would make the same of the new one.

    Raises:
        ClusterError: a dry run showed that the new object would be refused. The old object is kept.
    """
    kind, metadata = kind_named(child["kind"]), child["metadata"]
    trial = {**child, "metadata": {**metadata, "name": f"{metadata['name']}-trial"}}
    made = await cluster.apply(kind, body=trial, field_manager=CHILD_MANAGER, dry_run=True)
    if live is not None:
        field = child_kind(child["kind"]).drift.immutable_field
        if field is not None and made.get(field) == live.get(field):
            return await apply_child(cluster, child=_with_immutable_field(child, live), live=live)
        await cluster.delete(kind, namespace=metadata["namespace"], name=metadata["name"], uid=live["metadata"]["uid"])
    return await apply_child(cluster, child=child, live=None)


def _differences(child: Mapping[str, Any], answer: KubernetesObject) -> list[Difference]:
    return list(differences(child, answer, rules=child_kind(child["kind"]).drift))


def _with_immutable_field(child: dict[str, Any], live: KubernetesObject) -> dict[str, Any]:
    """The child with the live value of its immutable field: another value would be refused."""
    field = child_kind(child["kind"]).drift.immutable_field
    return child if field is None else {**child, field: live.get(field)}


async def _apply(
    cluster: Cluster, kind: Kind, *, child: dict[str, Any], live: KubernetesObject | None
) -> dict[str, Any]:
    """Apply a child. If a field that another client added makes it invalid, remove such fields and try again."""
    metadata = child["metadata"]
    try:
        return await cluster.apply(kind, body=child, field_manager=CHILD_MANAGER)
    except InvalidError:
        if live is None or not await _own_whole_spec(
            cluster, kind, namespace=metadata["namespace"], name=metadata["name"]
        ):
            raise
        return await cluster.apply(kind, body=child, field_manager=CHILD_MANAGER)
    except TooLargeError as error:
        error.reword(_explain_size(child, cause=error.message))
        raise


def _explain_size(child: Mapping[str, Any], *, cause: str) -> str:
    """The message for an object that is too large: which field, and what to do."""
    path, size = largest_field(child)
    return (
        f"the object is too large ({size_of(child)} bytes; by default etcd accepts about 1.5 MB, with the fields that "
        f"the API server adds). Its largest field is {path} ({size} bytes). Shorten variables (env), args and "
        f"podTemplate in the spec, or move large values to a ConfigMap and refer to it: {cause}"
    )


async def _own_whole_spec(cluster: Cluster, kind: Kind, *, namespace: str, name: str) -> bool:
    """Make the operator's field manager for children (CHILD_MANAGER) the owner of all fields in the spec.

    Returns false if it already is.

    The next apply then removes the fields that are not in the plan.
    """
    live = await cluster.get(kind, namespace=namespace, name=name)
    metadata = (live or {}).get("metadata", {})
    fields = with_whole_spec(metadata.get("managedFields", ()), manager=CHILD_MANAGER)
    if fields is None:
        return False
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": fields}}
    await cluster.patch(kind, namespace=namespace, name=name, body=body)
    return True
