"""Who owns which field of a child."""

from __future__ import annotations

from typing import Any

from epd_operator.plan.foreign_fields import with_whole_spec


def entry(manager: str, fields: dict[str, Any], *, operation: str = "Update", **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


OURS = entry("us", {"f:metadata": {"f:labels": {}}, "f:spec": {"f:replicas": {}}}, operation="Apply")


def test_what_a_stranger_set_in_the_spec_becomes_ours_and_all_else_stays_theirs() -> None:
    edit = entry("kubectl-edit", {"f:metadata": {"f:annotations": {}}, "f:spec": {"f:paused": {}}})
    status = entry("controller", {"f:status": {}}, subresource="status")
    owned = with_whole_spec([OURS, edit, status], manager="us")
    assert owned == [
        {**OURS, "fieldsV1": {"f:metadata": {"f:labels": {}}, "f:spec": {"f:replicas": {}, "f:paused": {}}}},
        {**edit, "fieldsV1": {"f:metadata": {"f:annotations": {}}}},
        status,
    ]
    assert with_whole_spec(owned, manager="us") is None


def test_an_object_that_we_never_applied_is_left_to_its_owners() -> None:
    assert with_whole_spec([entry("somebody", {"f:spec": {"f:replicas": {}}})], manager="us") is None
    assert with_whole_spec([], manager="us") is None


def test_fields_that_several_set_are_owned_once() -> None:
    first = entry("a", {"f:spec": {"f:ports": {"k:1": {".": {}, "f:port": {}}}}})
    second = entry("b", {"f:spec": {"f:ports": {"k:1": {"f:name": {}}, "k:2": {}}}})
    owned = with_whole_spec([first, second, OURS], manager="us")
    assert owned is not None
    assert owned[0]["fieldsV1"]["f:spec"]["f:ports"] == {"k:1": {".": {}, "f:port": {}, "f:name": {}}, "k:2": {}}
    assert len(owned) == 1
