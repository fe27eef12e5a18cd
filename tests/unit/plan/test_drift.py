"""When a live child counts as unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from epd_operator.plan.drift import matches

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_everything_matches_itself(value: object) -> None:
    assert matches(value, value)


def test_what_the_server_adds_does_not_matter() -> None:
    planned = {"containers": [{"name": "main", "image": "i"}]}
    live = {
        "containers": [{"name": "sidecar"}, {"name": "main", "image": "i", "terminationMessagePath": "/x"}],
        "more": 1,
    }
    assert matches(planned, live)


def test_a_change_anywhere_matters() -> None:
    assert not matches({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}})
    assert not matches({"a": 1}, {})
    assert not matches([{"name": "x"}], [{"name": "y"}])
    assert not matches(["a"], ["a", "b"])


def test_quantities_are_compared_by_value() -> None:
    assert matches({"memory": "1024Mi"}, {"memory": "1Gi"})
    assert matches({"cpu": "0.5"}, {"cpu": "500m"})
    assert not matches({"memory": "1G"}, {"memory": "1Gi"})


def test_empty_values_that_the_server_does_not_store_match_nothing() -> None:
    assert matches({"resources": {}, "value": ""}, {})


def test_one_volume_may_be_mounted_at_several_paths() -> None:
    mounts = [{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b", "subPath": "b"}]
    assert matches({"volumeMounts": mounts}, {"volumeMounts": mounts})
    moved = [mounts[0], {**mounts[1], "subPath": "c"}]
    assert not matches({"volumeMounts": mounts}, {"volumeMounts": moved})


def test_two_owners_of_one_name_are_told_apart() -> None:
    ours = {"kind": "EPDDeployment", "name": "qwen", "uid": "1"}
    other = {"kind": "ConfigMap", "name": "qwen", "uid": "2"}
    assert matches({"ownerReferences": [ours]}, {"ownerReferences": [ours, other]})
    assert not matches({"ownerReferences": [ours]}, {"ownerReferences": [other]})


def test_an_item_that_a_stranger_adds_to_a_list_that_is_ours_whole_matters() -> None:
    ours = {"kind": "ServiceAccount", "name": "qwen-discovery"}
    assert not matches({"subjects": [ours]}, {"subjects": [ours, {"kind": "User", "name": "mallory"}]})


def test_false_and_zero_that_the_server_does_not_store_match_nothing() -> None:
    assert matches({"readOnly": False, "gcePersistentDisk": {"partition": 0}}, {})
    assert not matches({"readOnly": False}, {"readOnly": True})
    assert not matches({"allowPrivilegeEscalation": False}, {})


def test_an_empty_choice_is_not_the_absence_of_one() -> None:
    planned = {"volumes": [{"name": "cache", "emptyDir": {}}]}
    assert matches(planned, planned)
    assert not matches(planned, {"volumes": [{"name": "cache", "hostPath": {"path": "/etc"}}]})
    assert not matches({"namespaceSelector": {}}, {})


def test_null_leaves_the_value_to_the_server() -> None:
    assert matches({"hostPath": {"path": "/x", "type": None}}, {"hostPath": {"path": "/x", "type": ""}})


def test_amounts_are_compared_as_the_server_rounds_and_writes_them() -> None:
    assert matches({"cpu": "0.0005"}, {"cpu": "1m"})
    assert matches({"memory": "1.3333333Gi"}, {"memory": "1431655729542m"})
    assert matches({"sizeLimit": 1073741824}, {"sizeLimit": "1Gi"})
    assert not matches({"cpu": "0.0015"}, {"cpu": "1m"})


def test_text_that_looks_like_a_quantity_is_compared_as_text() -> None:
    for field, planned, live in (
        ("env", [{"name": "SIZE", "value": "1024Mi"}], [{"name": "SIZE", "value": "1Gi"}]),
        ("args", ["--swap", "1e3"], ["--swap", "1000"]),
        ("annotations", {"note": "1" * 30}, {"note": "2" * 30}),
        ("labels", {"build": "5."}, {"build": "5"}),
    ):
        assert matches({field: planned}, {field: planned})
        assert not matches({field: planned}, {field: live})
