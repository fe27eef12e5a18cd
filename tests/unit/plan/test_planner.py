"""Properties of the planner as a whole."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.epddeployment import MAX_NAME_LENGTH
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.objects.identity import COMPONENT_LABEL, Identity, StageKey
from epd_operator.plan.observation import ChildKey
from epd_operator.plan.planner import make_plan
from epd_operator.plan.status.builder import status_of
from support.specs import TOPOLOGIES, names, namespaces, raw_spec, spec, specs
from support.world import NOW, World

IDENTITY = Identity(name="qwen", namespace="serving", uid="u-1")
RECONCILES = 200


def settle(wanted: EPDDeploymentSpec, world: World) -> int:
    """Run reconciles until nothing is written; returns their number."""
    for number in range(RECONCILES):
        observation = world.observation()
        plan = make_plan(wanted, observation=observation)
        status = status_of(wanted, plan=plan, observation=observation, now=NOW)
        if (
            not plan.apply
            and not plan.delete
            and status == world.status
            and status["conditions"][0]["status"] == "True"
        ):
            return number
        world.apply(plan)
        world.status = status
        world.step()
    raise AssertionError(f"did not settle within {RECONCILES} reconciles: {world.status}")


@given(wanted=specs)
@settings(max_examples=60, deadline=None)
def test_every_legal_spec_converges_to_ready_and_then_nothing_is_written(wanted: EPDDeploymentSpec) -> None:
    world = World(IDENTITY)
    settle(wanted, world)
    plan = make_plan(wanted, observation=world.observation())
    assert plan.apply == ()
    assert plan.delete == ()


@given(before=specs, after=specs)
@settings(max_examples=60, deadline=None)
def test_any_spec_can_become_any_other_and_leaves_no_child_behind(
    before: EPDDeploymentSpec, after: EPDDeploymentSpec
) -> None:
    world = World(IDENTITY)
    settle(before, world)
    settle(after, world)
    fresh = World(IDENTITY)
    settle(after, fresh)
    # Names of Deployments may have a revision, and the earlier spec is recorded.
    assert stages_in(world) == stages_in(fresh)
    assert kept_kinds(world) == kept_kinds(fresh)
    (service,) = [child for key, child in world.children.items() if key.kind == "Service"]
    frontends = [
        child
        for key, child in world.children.items()
        if key.name.startswith("qwen-frontend") and key.kind == "Deployment"
    ]
    for frontend in frontends:
        labels = frontend["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()


def stages_in(world: World) -> dict[str, int]:
    """Replicas of each stage."""
    deployments = [child for key, child in world.children.items() if key.kind == "Deployment"]
    found = {child["metadata"]["labels"][COMPONENT_LABEL]: child["spec"]["replicas"] for child in deployments}
    assert len(found) == len(deployments)
    return found


def kept_kinds(world: World) -> dict[ChildKey, Any]:
    """Children whose names have no revision."""
    changing = ("Deployment", "ControllerRevision", "Service")
    return {key: child.get("spec") for key, child in world.children.items() if key.kind not in changing}


@given(wanted=specs, name=names, namespace=namespaces)
@example(wanted=spec(), name="q" * MAX_NAME_LENGTH, namespace="n" * 63)
@settings(max_examples=100, deadline=None)
def test_all_names_and_labels_fit_into_63_characters(wanted: EPDDeploymentSpec, name: str, namespace: str) -> None:
    world = World(Identity(name=name, namespace=namespace, uid="u"))
    settle(wanted, world)
    for key, child in world.children.items():
        pod_suffix = len("-0123456789-abcde") if key.kind == "Deployment" else 0
        assert len(key.name) + pod_suffix <= 63
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", key.name)
        for value in child["metadata"]["labels"].values():
            assert len(value) <= 63


@given(wanted=specs, seed=st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_order_in_which_children_are_listed_does_not_matter(wanted: EPDDeploymentSpec, seed: int) -> None:
    world = World(IDENTITY)
    settle(wanted, world)
    shuffled = World(IDENTITY)
    items = list(world.children.items())
    random.Random(seed).shuffle(items)
    items = items[: len(items) // 2]
    shuffled.children = dict(items)
    ordered = World(IDENTITY)
    ordered.children = dict(sorted(items))
    assert make_plan(wanted, observation=shuffled.observation()) == make_plan(wanted, observation=ordered.observation())


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_each_topology_has_exactly_its_stages(topology: str) -> None:
    world = World(IDENTITY)
    settle(spec(topology), world)
    deployments = {key.name for key in world.children if key.kind == "Deployment"}
    stages = {"Aggregated": ["worker"], "CoLocated": ["group"], "Disaggregated": ["encoder", "pd"]}[topology]
    assert deployments == {f"qwen-{stage}" for stage in ["frontend", *stages]}


def test_pd_is_created_only_after_the_first_encoder_is_ready() -> None:
    world = World(IDENTITY)
    pd = ChildKey("Deployment", IDENTITY.workload_name(StageKey(StageName.PD)))
    world.apply(make_plan(spec(), observation=world.observation()))
    assert pd not in world.children
    assert pd not in {ChildKey.of(c) for c in make_plan(spec(), observation=world.observation()).children}
    world.step()
    world.apply(make_plan(spec(), observation=world.observation()))
    assert pd in world.children


def test_pd_stays_when_all_encoders_are_lost() -> None:
    world = World(IDENTITY)
    settle(spec(), world)
    world.children[ChildKey("Deployment", "qwen-encoder")]["status"] = {}
    plan = make_plan(spec(), observation=world.observation())
    assert plan.delete == ()
    assert plan.apply == ()


def test_a_lost_child_is_made_again_and_a_changed_one_is_put_right() -> None:
    world = World(IDENTITY)
    settle(spec(), world)
    del world.children[ChildKey("Service", "qwen")]
    world.children[ChildKey("Deployment", "qwen-pd")]["spec"]["replicas"] = 99
    plan = make_plan(spec(), observation=world.observation())
    assert [ChildKey.of(child) for child in plan.apply] == [
        ChildKey("Service", "qwen"),
        ChildKey("Deployment", "qwen-pd"),
    ]


def test_a_field_dropped_from_the_spec_is_noticed_though_the_live_object_still_has_it() -> None:
    world = World(IDENTITY)
    with_limit = spec("Aggregated", worker={"pool": "gb200", "resources": {"limits": {"memory": "1Gi"}}})
    settle(with_limit, world)
    without = spec("Aggregated", worker={"pool": "gb200"})
    changed = [ChildKey.of(child) for child in make_plan(without, observation=world.observation()).apply]
    assert [key.name for key in changed if key.kind == "Deployment"] == ["qwen-worker"]


def test_a_stage_that_the_topology_needs_but_lacks_is_named_by_its_path() -> None:
    raw = raw_spec()
    del raw["pd"]
    with pytest.raises(ValueError, match=r"spec\.pd"):
        make_plan(EPDDeploymentSpec.model_validate(raw), observation=World(IDENTITY).observation())


def test_an_unknown_pool_is_named_by_its_path() -> None:
    wanted = spec(encoder={"pool": "h100"})
    with pytest.raises(ValueError, match=r"spec\.encoder\.pool.*h100"):
        make_plan(wanted, observation=World(IDENTITY).observation())
