"""URL paths of objects at the API server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT, POD


def test_kinds_of_the_core_group_are_below_api_and_others_below_apis() -> None:
    assert POD.path(namespace="serving") == "/api/v1/namespaces/serving/pods"
    assert DEPLOYMENT.path(namespace="serving", name="a") == "/apis/apps/v1/namespaces/serving/deployments/a"


def test_a_path_without_a_namespace_is_that_of_all_namespaces() -> None:
    assert POD.path(namespace=None) == "/api/v1/pods"


def test_a_subresource_is_at_the_end_of_the_path() -> None:
    path = EPD_DEPLOYMENT.path(namespace="serving", name="qwen", subresource="status")
    assert path.endswith("/namespaces/serving/epddeployments/qwen/status")


@pytest.mark.parametrize("name", [".", "..", "a/b", "../secrets", "a%2fb", "a?b", "a#b", "a\\b", "a b", "a\n"])
def test_a_name_that_leads_to_another_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid name of an object"):
        POD.path(namespace="serving", name=name)


@given(st.text(min_size=1))
def test_the_path_of_any_accepted_name_has_the_name_as_its_last_part(name: str) -> None:
    try:
        path = POD.path(namespace="serving", name=name)
    except ValueError:
        return
    assert path.split("/") == ["", "api", "v1", "namespaces", "serving", "pods", name]
