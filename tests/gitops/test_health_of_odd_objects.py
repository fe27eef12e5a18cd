"""Health checks on statuses that no operator writes: they do not fail, and report no unhealthy object as healthy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.plan.status.reasons import Reason
from support.gitops import Checker, health_checker

ARGO_CD = {"Healthy": "Current", "Progressing": "InProgress", "Degraded": "Failed"}
GENERATION = 3


def thing(status: Any = None, **metadata: Any) -> dict[str, Any]:
    """An EPDDeployment with a status; None means without."""
    made = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "spec": {}}
    made["metadata"] = {"name": "qwen", "namespace": "n", "generation": GENERATION, **metadata}
    return made if status is None else {**made, "status": status}


def condition(kind: str, status: str, reason: str = "Any") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": "m", "observedGeneration": GENERATION}


def seen(*conditions: Any, **fields: Any) -> dict[str, Any]:
    return {"observedGeneration": GENERATION, "conditions": list(conditions), **fields}


ODD = {
    "no status": thing(),
    "empty status": thing({}),
    "status is a text": thing("all is well"),
    "status is a list": thing([]),
    "no conditions": thing({"observedGeneration": GENERATION}),
    "empty conditions": thing(seen()),
    "conditions are a map": thing({"observedGeneration": GENERATION, "conditions": {"Ready": "True"}}),
    "conditions are a text": thing({"observedGeneration": GENERATION, "conditions": "Ready"}),
    "conditions of odd types": thing(seen(7, "Ready", None, [], {})),
    "unknown types": thing(seen(condition("Shiny", "True"), condition("Degraded", "True"))),
    "a condition without a status": thing(seen({"type": "Ready"})),
    "a condition without words": thing(seen({"type": "Ready", "status": "False", "reason": None, "message": 5})),
    "a reason that is a list": thing(seen({"type": "Ready", "status": "False", "reason": ["CrashLooping"]})),
    "a status that is no text": thing(seen({"type": "Ready", "status": True})),
    "Ready is unknown": thing(seen(condition("Ready", "Unknown"))),
    "ready, but of another generation": thing({**seen(condition("Ready", "True")), "observedGeneration": 2}),
    "ready, but without a generation": thing({"conditions": [condition("Ready", "True")]}),
    "ready, but the generation is a text": thing({**seen(condition("Ready", "True")), "observedGeneration": "3"}),
    "ready, but at work": thing(seen(condition("Ready", "True"), condition("Reconciling", "True"))),
    "ready, but being deleted": thing(seen(condition("Ready", "True")), deletionTimestamp="2026-01-01T00:00:00Z"),
    "stalled, but of another generation": thing({**seen(condition("Stalled", "True")), "observedGeneration": 2}),
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_argo_cd_shows_an_unusual_object_as_progressing(checker: Checker, odd: dict[str, Any]) -> None:
    result = checker.health(odd).argocd
    assert (result.status, result.error) == ("Progressing", "")
    assert result.message


def test_missing_metadata_does_not_break_the_script(checker: Checker) -> None:
    assert checker.health({"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment"}).argocd.status == "Progressing"


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(["observedGeneration", "conditions", "stages"])


@given(status=anything | st.dictionaries(fields, anything))
def test_no_status_breaks_the_script_or_makes_the_object_healthy(checker: Checker, status: Any) -> None:
    result = checker.health(thing(status)).argocd
    assert result.error == ""
    assert result.status == "Progressing"


reasons = st.sampled_from([*Reason, "Odd"])
legal_conditions = st.fixed_dictionaries(
    {},
    optional={
        kind: st.tuples(st.sampled_from(["True", "False", "Unknown"]), reasons)
        for kind in ("Ready", "Available", "Reconciling", "Stalled", "Other")
    },
)


@given(conditions=legal_conditions, observed=st.sampled_from([0, 2, GENERATION]), deleted=st.booleans())
def test_argo_cd_and_flux_agree_on_every_status_that_the_api_server_accepts(
    checker: Checker, conditions: dict[str, tuple[str, str]], observed: int, deleted: bool
) -> None:
    status = seen(*(condition(kind, value, reason) for kind, (value, reason) in conditions.items()))
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    result = checker.health(thing({**status, "observedGeneration": observed}, **metadata))
    assert result.flux.error == ""
    assert result.flux.status == ARGO_CD[result.argocd.status]
    ready = conditions.get("Ready", ("", ""))[0] == "True"
    reconciling = conditions.get("Reconciling", ("", ""))[0] == "True"
    stalled = conditions.get("Stalled", ("", ""))[0] == "True"
    healthy = ready and not reconciling and not stalled and observed == GENERATION and not deleted
    assert (result.argocd.status == "Healthy") is healthy
    if not reconciling or not stalled:  # kstatus depends on the order of the two
        assert (result.kstatus.status == "Current") is healthy or "Ready" not in conditions


@pytest.mark.parametrize("forbidden", ["io.open('/etc/passwd')", "os.execute('true')", "string.rep('x', 9)", "math.pi"])
def test_scripts_can_use_only_what_argo_cd_allows(tmp_path: Path, forbidden: str) -> None:
    script = tmp_path / "script.lua"
    script.write_text(f"local x = {forbidden}\nreturn {{ status = 'Healthy' }}\n")
    with health_checker(tmp_path, lua=script) as checker:
        assert checker.health(thing()).argocd.error


def test_a_script_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    script = tmp_path / "script.lua"
    script.write_text("while true do end\n")
    with health_checker(tmp_path, lua=script) as checker:
        assert checker.health(thing()).argocd.error
