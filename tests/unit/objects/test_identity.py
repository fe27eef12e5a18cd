"""Names, labels and selectors of children, with and without a revision, and owners of objects."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import (
    COMPONENT_LABEL,
    DEPLOYMENT_LABEL,
    INITIAL_REVISION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    REVISION_LABEL,
    Identity,
    StageKey,
    all_stages,
    controller_of,
    controller_uid,
    stage_of,
)

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
PD = StageKey(StageName.PD)
PD_OF_REVISION = StageKey(StageName.PD, "7f3a")
REVISIONS = st.text("0123456789abcdef", min_size=4, max_size=8)
STAGES = st.builds(StageKey, st.sampled_from(StageName), st.just(INITIAL_REVISION) | REVISIONS)


def test_names_without_a_revision_have_no_suffix() -> None:
    assert str(PD) == "pd"
    assert IDENTITY.workload_name(PD) == "qwen-pd"
    assert IDENTITY.dynamo_namespace(INITIAL_REVISION) == "serving-qwen"


def test_names_with_a_revision_end_with_it() -> None:
    assert str(PD_OF_REVISION) == "pd-7f3a"
    assert IDENTITY.workload_name(PD_OF_REVISION) == "qwen-pd-7f3a"
    assert IDENTITY.dynamo_namespace("7f3a") == "serving-qwen_7f3a"


def test_names_of_children_of_the_whole_deployment_do_not_depend_on_a_revision() -> None:
    names = (IDENTITY.service_name, IDENTITY.account_name, IDENTITY.policy_name)
    assert names == ("qwen", "qwen-discovery", "qwen-pods")


def test_the_selector_of_a_deployment_of_the_first_revision_is_that_of_the_time_before_revisions() -> None:
    selector = {DEPLOYMENT_LABEL: "qwen", COMPONENT_LABEL: "pd"}
    assert IDENTITY.workload_selector(PD) == selector
    assert IDENTITY.workload_selector(PD_OF_REVISION) == {**selector, REVISION_LABEL: "7f3a"}


@given(STAGES)
def test_pods_of_a_stage_match_all_its_selectors(stage: StageKey) -> None:
    pod = IDENTITY.workload_labels(stage).items()
    assert IDENTITY.workload_selector(stage).items() <= pod
    assert IDENTITY.revision_selector(stage).items() <= pod
    assert IDENTITY.stage_selector(stage.name).items() <= pod


@given(STAGES)
def test_the_stage_is_read_back_from_the_labels_and_from_the_name_of_its_deployment(stage: StageKey) -> None:
    child = {"metadata": IDENTITY.metadata("c", labels=IDENTITY.workload_labels(stage))}
    assert stage_of(child) == (stage.name.value, stage.revision)
    assert IDENTITY.stage_of_workload(IDENTITY.workload_name(stage)) == stage


@pytest.mark.parametrize("name", ["qwen", "qwen-", "qwen-pdx", "qwen-worker2", "other-pd", "xqwen-pd"])
def test_other_names_are_those_of_no_stage(name: str) -> None:
    assert IDENTITY.stage_of_workload(name) is None


@given(REVISIONS, REVISIONS)
def test_stages_of_different_revisions_have_different_names_and_selectors(one: str, other: str) -> None:
    stages = {*all_stages(), *all_stages(one), *all_stages(other)}
    assert len({IDENTITY.workload_name(stage) for stage in stages}) == len(stages)
    assert len({str(sorted(IDENTITY.revision_selector(stage).items())) for stage in stages}) == len(stages)


def test_all_stages_of_a_revision_are_in_the_order_of_a_request() -> None:
    assert [stage.name for stage in all_stages("7f3a")] == list(StageName)
    assert {stage.revision for stage in all_stages("7f3a")} == {"7f3a"}
    assert {stage.revision for stage in all_stages()} == {INITIAL_REVISION}


def test_labels_without_a_stage_have_neither_component_nor_revision() -> None:
    labels = IDENTITY.labels()
    assert labels[MANAGED_BY_LABEL] == MANAGED_BY
    assert labels.keys().isdisjoint({COMPONENT_LABEL, REVISION_LABEL})


def test_a_child_is_controlled_by_the_deployment_with_its_uid() -> None:
    child = {"metadata": IDENTITY.metadata("c")}
    assert controller_uid(child) == "u-1"
    assert child["metadata"]["namespace"] == "serving"
    assert controller_of(child) == IDENTITY.owner_reference


@pytest.mark.parametrize("labels", [None, {}, {"app": "other"}])
def test_an_object_without_labels_of_a_stage_has_no_stage(labels: Any) -> None:
    assert stage_of({"metadata": {"labels": labels}}) == (None, INITIAL_REVISION)
    assert stage_of({"metadata": {}}) == (None, INITIAL_REVISION)


@given(st.text(), st.text())
def test_labels_of_other_clients_can_have_any_text(component: str, revision: str) -> None:
    found = {"metadata": {"labels": {COMPONENT_LABEL: component, REVISION_LABEL: revision}}}
    assert stage_of(found)[0] == component


@pytest.mark.parametrize("references", [None, [], [{"uid": "a"}], [{"uid": "a", "controller": False}]])
def test_an_object_without_a_controller_has_no_controller_uid(references: Any) -> None:
    child = {"metadata": {"ownerReferences": references}}
    assert controller_of(child) is None
    assert controller_uid(child) is None


def test_the_controller_is_found_among_other_owners() -> None:
    references = [{"uid": "a"}, {"uid": "b", "controller": True}, {"uid": "c", "controller": False}]
    assert controller_uid({"metadata": {"ownerReferences": references}}) == "b"
