"""The registry of kinds of children: every entry is complete, and all that depends on it follows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from crdgen.rights import child_rights

from epd_operator.objects.identity import Identity
from epd_operator.plan.children.child_kind import ALL_VERBS, ChildContext, ChildKind, Settings
from epd_operator.plan.children.registry import CHILD_KINDS, CHILDREN, OPTIONAL_KINDS, WATCHED_KINDS, child_kind
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.rollout.revisions import plan_rollout
from support.specs import TOPOLOGIES, spec

ROOT = Path(__file__).resolve().parents[4]
IDENTITY = Identity(name="qwen", namespace="serving", uid="1")
EXTERNAL = {"autoscaling": {"mode": "External", "maxReplicas": 4}}
WORKLOADS = {
    "Aggregated": {"worker": {"pool": "gb200", **EXTERNAL}},
    "CoLocated": {"group": {"pool": "gb200", **EXTERNAL}},
    "Disaggregated": {"encoder": {"pool": "rtx", **EXTERNAL}, "pd": {"pool": "gb200"}},
}

every_entry = pytest.mark.parametrize("entry", CHILDREN, ids=lambda entry: entry.kind.kind)


def built(entry: ChildKind, topology: str) -> list[dict[str, Any]]:
    """Children of one kind, for a spec that needs all kinds."""
    parsed = spec(topology, **WORKLOADS[topology])
    observation = Observation(identity=IDENTITY, generation=1)
    rollout = plan_rollout(parsed, observation=observation)
    return list(entry.build(ChildContext(spec=parsed, observation=observation, settings=Settings(), rollout=rollout)))


def test_each_kind_is_registered_once() -> None:
    assert len({kind.kind for kind in CHILD_KINDS}) == len(CHILDREN)
    assert set(OPTIONAL_KINDS) < set(CHILD_KINDS) < set(WATCHED_KINDS)


@every_entry
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_an_entry_builds_owned_children_of_its_kind_and_of_no_other(entry: ChildKind, topology: str) -> None:
    children = built(entry, topology)
    assert children
    for child in children:
        assert (child["apiVersion"], child["kind"]) == (entry.kind.api_version, entry.kind.kind)
        assert child["metadata"]["namespace"] == IDENTITY.namespace
        assert child["metadata"]["ownerReferences"] == [IDENTITY.owner_reference]
        assert child["metadata"]["labels"].items() >= IDENTITY.labels().items()


@every_entry
def test_an_entry_says_what_it_is_for_and_what_its_absence_means(entry: ChildKind) -> None:
    for text in (entry.purpose, entry.absence):
        assert len(text.split()) >= 3
        assert not text.endswith(".")


def names_of_fields(value: object) -> set[str]:
    """Names of all fields at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(names_of_fields, value.values()))
    return set().union(*map(names_of_fields, value)) if isinstance(value, list) else set()


@every_entry
def test_drift_rules_name_fields_that_the_children_have(entry: ChildKind) -> None:
    for child in built(entry, "Disaggregated"):
        # Affinity is in a child only if the user sets it.
        assert entry.drift.exact_fields - {"affinity"} <= names_of_fields(list(built(entry, "Disaggregated")))
        assert entry.drift.closed_lists <= names_of_fields(child)
        assert entry.drift.immutable_field is None or entry.drift.immutable_field in child


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_plan_holds_what_the_entries_build_in_the_order_of_the_registry(topology: str) -> None:
    plan = make_plan(spec(topology, **WORKLOADS[topology]), observation=Observation(identity=IDENTITY, generation=1))
    expected = [ChildKey.of(child) for entry in CHILDREN for child in built(entry, topology)]
    assert [ChildKey.of(child) for child in plan.children] == expected


def test_the_rights_in_the_chart_are_those_of_the_registry() -> None:
    assert (ROOT / "charts/epd-operator/templates/_child_rights.tpl").read_text() == child_rights()


@every_entry
def test_only_verbs_that_the_operator_uses_on_children_are_granted(entry: ChildKind) -> None:
    assert set(entry.verbs) <= set(ALL_VERBS)
    assert {"get", "list", "watch", "create", "patch"} <= set(entry.verbs)


def test_a_kind_that_is_not_registered_has_no_entry() -> None:
    with pytest.raises(KeyError):
        child_kind("NoSuchKind")
