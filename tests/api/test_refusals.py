"""The API server refuses every kind of invalid object, at the right field and with a message that says what to do."""

from __future__ import annotations

import pytest

from epd_operator.api.v1alpha1.epddeployment import GROUP, PLURAL, VERSION
from support.apiserver import ApiServer
from support.bad_objects import BAD_OBJECTS, Bad, deployment

COLLECTION = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"


@pytest.mark.parametrize("topology", ["Aggregated", "CoLocated", "Disaggregated"])
def test_the_valid_objects_that_the_bad_ones_are_derived_from_are_accepted(
    api_server: ApiServer, topology: str
) -> None:
    answer = api_server.client.create(COLLECTION, deployment(topology), dry_run=True)
    assert answer.ok, answer.message


@pytest.mark.parametrize("bad", BAD_OBJECTS, ids=lambda bad: bad.sentence)
def test_the_api_server_refuses(api_server: ApiServer, bad: Bad) -> None:
    answer = api_server.client.create(COLLECTION, bad.object(), dry_run=True)
    assert answer.status == 422, answer.body
    # Only an invalid regular expression makes a rule itself fail: CEL has no way to ask whether a text is one.
    assert "evaluating rule" not in answer.message or "error parsing regexp" in answer.message
    fields = [field for field, _ in answer.causes if field != "<nil>"]
    assert fields == [bad.field, *bad.also], answer.message
    assert bad.message in answer.message


def test_a_misspelt_field_is_refused_by_its_path(api_server: ApiServer) -> None:
    answer = api_server.client.create(COLLECTION, deployment(changes={"pd.replica": 2}), dry_run=True)
    assert answer.status == 400
    assert 'unknown field "spec.pd.replica"' in answer.message
