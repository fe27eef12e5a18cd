"""What others repeat of a spec's literal values is hidden."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_operator.objects.identity import Identity
from epd_operator.plan.observation import ChildKey, Observation
from epd_operator.plan.redaction import Redactor

CANARY = "canary-5f2a9c"


def redact(spec: object, text: str) -> str:
    return Redactor.of(spec).redact(text)


@pytest.mark.parametrize(
    "spec",
    [
        {"runtime": {"env": [{"name": "NAME", "value": CANARY}]}},
        {"worker": {"env": [{"name": "A", "value": "x"}, {"name": "NAME", "value": CANARY}]}},
        {"group": {"encoder": {"env": [{"name": "NAME", "value": CANARY}]}}},
        {"group": {"pd": {"env": [None, "odd", {}, {"name": "NAME", "value": CANARY}]}}},
    ],
)
def test_values_of_variables_are_hidden_wherever_they_are_set(spec):
    assert redact(spec, f"cannot log in with {CANARY}: 401") == "cannot log in with [value of NAME]: 401"


@pytest.mark.parametrize("args", [["--dtype", "x", f"--hf-token={CANARY}"], ["--hf-token", CANARY, "--dtype", "x"]])
def test_values_of_arguments_whose_name_tells_of_a_secret_are_hidden(args):
    assert redact({"runtime": {"args": args}}, f"bad {CANARY}") == "bad [value of --hf-token]"


def test_other_arguments_and_short_values_stay_readable():
    spec = {"worker": {"args": ["--max-model-len", "2048"], "env": [{"name": "LEVEL", "value": "debug"}]}}
    assert redact(spec, "debug: 2048 is too long") == "debug: 2048 is too long"


def test_a_short_value_is_hidden_where_its_name_tells_of_a_secret():
    assert redact({"env": [{"name": "API_KEY", "value": "abcd"}]}, "got abcd") == "got [value of API_KEY]"


@given(st.text(min_size=12), st.text(max_size=20), st.text(max_size=20))
def test_no_value_comes_through_whole_or_quoted(value, before, after):
    spec = {"env": [{"name": "X", "value": value}]}
    for form in (value, json.dumps(value), json.dumps(value, ensure_ascii=False)):
        told = redact(spec, before + form + after)
        assert value not in told or value in f"{before}[value of X]{after}"


def test_of_two_values_the_longer_is_hidden_as_a_whole():
    spec = {"env": [{"name": "SHORT", "value": "canary-short"}, {"name": "LONG", "value": "canary-short-and-long"}]}
    assert redact(spec, "canary-short-and-long") == "[value of LONG]"


def test_a_line_of_a_value_is_hidden_too():
    spec = {"env": [{"name": "PEM", "value": "-----BEGIN-----\nMIIEvQIBADANBg\n-----END-----"}]}
    assert redact(spec, "cannot parse MIIEvQIBADANBg") == "cannot parse [value of PEM]"


def test_messages_of_pods_and_children_are_cleaned_and_nothing_else_of_them():
    ended = {"exitCode": 1, "message": f"login failed: {CANARY}"}
    pod = {
        "metadata": {"name": CANARY},
        "status": {"containerStatuses": [{"name": "c", "state": {"terminated": ended}}]},
    }
    failure = {"type": "ReplicaFailure", "status": "True", "message": f"refused: {CANARY}"}
    live = {"kind": "Deployment", "spec": {"is": CANARY}, "status": {"replicas": 1, "conditions": [failure]}}
    key = ChildKey("Deployment", "d")
    identity = Identity(name="q", namespace="n", uid="u")
    observation = Observation(identity=identity, generation=1, pods=(pod,), children={key: live})
    cleaned = Redactor.of({"env": [{"name": "N", "value": CANARY}]}).redact_observation(observation)
    assert cleaned.pods[0]["metadata"] == {"name": CANARY}
    (container,) = cleaned.pods[0]["status"]["containerStatuses"]
    assert container["state"]["terminated"] == {"exitCode": 1, "message": "login failed: [value of N]"}
    assert cleaned.children[key]["spec"] == {"is": CANARY}
    assert cleaned.children[key]["status"]["conditions"] == [{**failure, "message": "refused: [value of N]"}]
    assert Redactor.of({}).redact_observation(observation) is observation
