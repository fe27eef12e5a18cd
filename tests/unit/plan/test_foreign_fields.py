"""The patch that removes what other clients have added to a child."""

from __future__ import annotations

import copy
from typing import Any

from epd_operator.plan.drift import DriftRules, differences
from epd_operator.plan.foreign_fields import removal_of

RULES = DriftRules(
    exact_fields=frozenset({"args"}),
    closed_lists=frozenset({"containers"}),
    closed_fields=frozenset({"paused", "hostNetwork", "limits"}),
)
PLANNED: dict[str, Any] = {
    "spec": {
        "replicas": 2,
        "template": {"spec": {"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}},
    }
}


def removal(live: dict[str, Any]) -> dict[str, Any]:
    return removal_of(differences(PLANNED, live, rules=RULES), live=live)


def merged(target: Any, patch: Any) -> Any:
    """JSON merge patch: RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def test_nothing_is_patched_where_nothing_was_added() -> None:
    assert removal(copy.deepcopy(PLANNED)) == {}


def test_a_changed_value_is_left_to_the_next_apply() -> None:
    live = copy.deepcopy(PLANNED)
    live["spec"]["replicas"] = 7

    assert removal(live) == {}


def test_fields_and_items_of_others_are_removed_and_all_else_stays() -> None:
    live = copy.deepcopy(PLANNED)
    live["spec"]["paused"] = True
    pod = live["spec"]["template"]["spec"]
    pod["hostNetwork"] = True
    pod["dnsPolicy"] = "ClusterFirst"
    pod["containers"][0]["resources"]["limits"] = {"cpu": "9"}
    pod["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    pod["containers"].append({"name": "spy", "image": "s"})

    cleaned = merged(live, removal(live))

    main = {**PLANNED["spec"]["template"]["spec"]["containers"][0], "terminationMessagePath": "/dev/termination-log"}
    template = {"spec": {"dnsPolicy": "ClusterFirst", "containers": [main]}}
    assert cleaned == {"spec": {"replicas": 2, "template": template}}
    assert removal(cleaned) == {}
