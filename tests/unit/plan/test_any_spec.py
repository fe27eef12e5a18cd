"""Whatever a spec holds, a reconcile gives a plan or a message: never an exception of another kind."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.plan.observation import Observation
from epd_operator.plan.planner import make_plan
from epd_operator.plan.redaction import Redactor
from epd_operator.plan.status.builder import status_of
from support.from_schema import accepted
from support.schemas import compiled
from support.specs import TOPOLOGIES, raw_spec

IDENTITY = Identity(name="qwen", namespace="serving", uid="1")
NOW = "2026-01-01T00:00:00Z"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["env", "args", "name", "value", "valueFrom", "worker"]), inner, max_size=3)
    ),
    max_leaves=20,
)
LISTS_AND_MAPS: dict[str, Any] = {
    "args": [], "env": [], "resources": {}, "podTemplate": {"volumes": [], "volumeMounts": [], "labels": {}},
}  # fmt: skip


def reconcile(raw: dict[str, Any]) -> dict[str, Any]:
    """What a reconcile computes, without a cluster."""
    redactor = Redactor.of(raw)
    observation = redactor.redact_observation(Observation(identity=IDENTITY, generation=1))
    spec = EPDDeploymentSpec.model_validate(raw)
    return status_of(spec, plan=make_plan(spec, observation=observation), observation=observation, now=NOW)


@given(accepted(compiled()["properties"]["spec"]))
@settings(max_examples=50)
def test_a_spec_that_the_schema_accepts_is_planned_or_refused_with_a_message(raw: dict[str, Any]) -> None:
    with contextlib.suppress(ValueError):
        reconcile(raw)


@given(JSON)
def test_secrets_are_looked_for_in_any_json(raw: Any) -> None:
    redactor = Redactor.of(raw)
    assert redactor.redact("nothing of it") == "nothing of it" or redactor.values


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_empty_lists_and_maps_at_every_place_are_the_same_as_none(topology: str) -> None:
    raw = raw_spec(topology)
    emptied = {
        **raw,
        "podTemplate": LISTS_AND_MAPS["podTemplate"],
        "runtime": {**raw["runtime"], "args": [], "env": [], "imagePullSecrets": []},
        "frontend": {**LISTS_AND_MAPS, "service": {"annotations": {}}},
        **{stage: {**raw[stage], **LISTS_AND_MAPS} for stage in ("worker", "group", "encoder", "pd") if stage in raw},
    }
    if "group" in emptied:
        emptied["group"] |= {"encoder": {"args": [], "env": []}, "pd": {"args": [], "env": []}}
    assert reconcile(emptied)["stages"] == reconcile(raw)["stages"]
