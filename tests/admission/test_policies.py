"""The policies: they compile without warnings, no expression fails, and chart values switch them on and off."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings

from support.admission import (
    ACCEPTED,
    REGISTRATION,
    STAGES,
    Object,
    collection,
    install,
    names,
    policies,
    quiet,
    strict,
    warnings,
)
from support.admission_cases import WARNINGS, scaled
from support.admission_specs import legal_specs
from support.apiserver import ApiServer
from support.client import Answer
from support.helm import CHART, Helm, HelmError

OF_POLICIES = f"{REGISTRATION}/validatingadmissionpolicies"
ROOT = Path(__file__).parents[2]
STRICT = collection("strict")
VERDICT = re.compile(r"[A-Z]\w+: spec\.")
FIX = re.compile(r"\. (Add|Ask|If|Lower|Measure|Move|Put|Raise|Remove|Set|To avoid|Use|Widen) ")
"""The beginning of a sentence that says what to do."""

LOCAL_TRANSPORTS = re.compile(r"t in (\['self'.*?\])")


def by_name(documents: list[Object], kind: str = "ValidatingAdmissionPolicy") -> dict[str, Object]:
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


def type_warnings(server: ApiServer, policy: str) -> list[str]:
    """Warnings of the API server's type checker about a policy."""
    path = f"{OF_POLICIES}/{policy}"
    server.wait_for(f"{policy} checked", lambda: "typeChecking" in server.client.get(path).body.get("status", {}))
    found = server.client.get(path).body["status"]["typeChecking"].get("expressionWarnings", [])
    return [warning["warning"] for warning in found]


# Compilation


@pytest.mark.parametrize("policy", ["epd-operator-warnings", "epd-operator-denials"])
def test_the_type_checker_has_no_warning(policy_server: ApiServer, policy: str) -> None:
    assert type_warnings(policy_server, policy) == []


def test_the_type_checker_warns_about_a_misspelt_field(policy_server: ApiServer, rendered: list[Object]) -> None:
    document = json.loads(
        json.dumps(by_name(rendered)["epd-operator-warnings"]).replace("spec.topology", "spec.topolgy")
    )
    document["metadata"]["name"] = "misspelt"
    assert policy_server.client.create(OF_POLICIES, document).ok
    assert "undefined field 'topolgy'" in "\n".join(type_warnings(policy_server, "misspelt"))


# Expressions never fail


@pytest.fixture(scope="module")
def strict_server(policy_server: ApiServer, rendered: list[Object]) -> ApiServer:
    """The policies again in namespace ``strict``, where failed expressions give warnings, and broken copies."""
    assert policy_server.client.create("/api/v1/namespaces", {"metadata": {"name": "strict"}}).ok
    documents = strict(rendered, namespace="strict", prefix="strict-")
    broken = json.dumps(strict(rendered, namespace="strict", prefix="broken-"))
    broken = broken.replace("object.spec.drain.timeoutSeconds", "object.spec.drain.nothing")
    install(policy_server, [*documents, *json.loads(broken)], namespace="strict")
    return policy_server


def failures(answer: Answer, *, prefix: str = "strict-") -> list[str]:
    """Warnings that come from a failed expression, not from a rule."""
    found = [warning for warning in warnings(answer) if warning.policy.startswith(prefix)]
    return [warning.text for warning in found if not VERDICT.match(warning.text)]


def test_a_failing_expression_is_detected(strict_server: ApiServer) -> None:
    answer = strict_server.client.create(STRICT, quiet(), dry_run=True)
    assert failures(answer) == []
    assert ["no such key: nothing" in text for text in failures(answer, prefix="broken-")] == [True]


@settings(max_examples=150)
@given(spec=legal_specs())
def test_no_expression_fails_on_an_object_that_the_api_server_accepts(strict_server: ApiServer, spec: Object) -> None:
    body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "any"}, "spec": spec}
    answer = strict_server.client.create(STRICT, body, dry_run=True)
    assert answer.ok or "ValidatingAdmissionPolicy 'epd-operator-denials'" in answer.message, answer.message
    assert failures(answer) == []


@settings(max_examples=40)
@given(before=legal_specs(), after=legal_specs())
def test_no_expression_fails_on_a_change(strict_server: ApiServer, before: Object, after: Object) -> None:
    client = strict_server.client
    body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "changing"}, "spec": before}
    if not client.create(STRICT, body).ok:
        return
    changed = client.get(f"{collection('strict')}/changing").body
    answer = client.request("PUT", f"{collection('strict')}/changing?dryRun=All", {**changed, "spec": after})
    assert client.request("DELETE", f"{collection('strict')}/changing").ok
    assert answer.ok or "ValidatingAdmissionPolicy 'epd-operator-denials'" in answer.message, answer.message
    assert failures(answer) == []


@pytest.mark.parametrize("topology", ["Aggregated", "CoLocated", "Disaggregated"])
def test_the_largest_objects_do_not_cost_too_much(strict_server: ApiServer, topology: str) -> None:
    answer = strict_server.client.create(STRICT, largest(topology), dry_run=True)
    assert answer.ok, answer.message
    assert {"epd-operator-warnings", "strict-epd-operator-warnings"} <= {warning.policy for warning in warnings(answer)}
    assert failures(answer) == []


def largest(topology: str) -> Object:
    """An object with the longest lists that the CRD allows, of those that policies iterate over."""
    args = ["--revision", *(f"{number:x<4090}" for number in range(63))]
    env = [{"name": f"{number:_>3}{'A' * 240}TOKEN", "value": "1" * 200} for number in range(100, 164)]
    env = [{**variable, "name": f"A{variable['name']}"} for variable in env]
    template = {
        "image": "a/" * 511 + "a",
        "volumes": [{"name": f"v{number}", "emptyDir": {}} for number in range(16)],
        "volumeMounts": [{"name": "v0", "mountPath": f"/{number:x<250}"} for number in range(32)],
    }
    changes = {"runtime.args": args, "runtime.env": env, "podTemplate": template, "model": {"name": "m" * 512}}
    for stage in ("frontend", *STAGES[topology]):
        changes |= {f"{stage}.args": args, f"{stage}.env": env, f"{stage}.podTemplate": template}
        changes |= {f"{stage}.autoscaling": scaled(1, 1), f"{stage}.resources": {}}
    if topology == "CoLocated":
        changes |= {
            f"group.{process}.{part}": value
            for process in ("encoder", "pd")
            for part, value in (("args", args[:8]), ("env", env))
        }
    body = quiet(topology, changes)
    body["spec"]["pools"] += [{"name": f"p{number}", "nodeSelector": {"a": "b"}} for number in range(14)]
    return body


# Values


def test_policies_check_specs_only_and_accept_what_they_cannot_evaluate(rendered: list[Object]) -> None:
    found = by_name(rendered)
    assert sorted(found) == ["epd-operator-denials", "epd-operator-warnings"]
    for policy in found.values():
        (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
        assert rule["resources"] == ["epddeployments"]
        assert rule["operations"] == ["CREATE", "UPDATE"]
        assert policy["spec"]["failurePolicy"] == "Ignore"


def test_bindings_warn_and_deny_everywhere(rendered: list[Object]) -> None:
    found = by_name(rendered, "ValidatingAdmissionPolicyBinding")
    assert {name: binding["spec"] for name, binding in found.items()} == {
        "epd-operator-warnings": {"policyName": "epd-operator-warnings", "validationActions": ["Warn"]},
        "epd-operator-denials": {"policyName": "epd-operator-denials", "validationActions": ["Deny"]},
    }


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ("admission.enabled", []),
        ("admission.warnings.enabled", ["epd-operator-denials"]),
        ("admission.denials.enabled", ["epd-operator-warnings"]),
    ],
)
def test_policies_can_be_switched_off(helm: Helm, value: str, left: list[str]) -> None:
    found = policies(helm, "--set", f"{value}=false")
    assert sorted(by_name(found)) == left
    assert sorted(by_name(found, "ValidatingAdmissionPolicyBinding")) == left


@pytest.mark.parametrize("kind", ["warnings", "denials"])
def test_any_rule_can_be_disabled(helm: Helm, rendered: list[Object], kind: str) -> None:
    everything = names(by_name(rendered)[f"epd-operator-{kind}"])
    for name in everything:
        arguments = ("--set", f"admission.{kind}.disabled={{{name}}}", "-s", f"templates/admission/{kind}.yaml")
        (policy,) = by_name(policies(helm, *arguments)).values()
        assert names(policy) == [other for other in everything if other != name]


def test_a_rule_that_does_not_exist_cannot_be_disabled(helm: Helm) -> None:
    with pytest.raises(HelmError, match="disabled"):
        policies(helm, "--set", "admission.warnings.disabled={SingleReplicas}")


def test_the_schema_of_values_lists_every_rule(rendered: list[Object]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]["admission"]["properties"]
    for kind in ("warnings", "denials"):
        known = schema[kind]["properties"]["disabled"]["items"]["enum"]
        assert known == names(by_name(rendered)[f"epd-operator-{kind}"])


def test_with_a_prometheus_server_there_is_no_warning_about_a_missing_one(helm: Helm) -> None:
    found = by_name(policies(helm, "--set", "prometheusUrl=http://prometheus:9090"))["epd-operator-warnings"]
    assert "NoPrometheus" not in names(found)


def test_policies_have_the_labels_of_the_release(helm: Helm) -> None:
    for document in policies(helm, "--set", "commonLabels.team=a", release="second"):
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] == "second"
        assert document["metadata"]["labels"]["team"] == "a"


def test_local_transports_are_those_of_the_crd(rendered: list[Object]) -> None:
    crd = yaml.safe_load((ROOT / "crds" / "epd.dev_epddeployments.yaml").read_text())
    (of_crd,) = set(LOCAL_TRANSPORTS.findall(json.dumps(crd).replace("\\n", " ")))
    of_policies = set(LOCAL_TRANSPORTS.findall(json.dumps(rendered)))
    assert {tuple(yaml.safe_load(found)) for found in of_policies} == {tuple(yaml.safe_load(of_crd))}


@pytest.mark.parametrize("kind", ["warnings", "denials"])
def test_every_message_names_a_fix(rendered: list[Object], kind: str) -> None:
    messages = [rule["messageExpression"] for rule in by_name(rendered)[f"epd-operator-{kind}"]["spec"]["validations"]]
    assert [message for message in messages if not FIX.search(message)] == []


# Several releases


def test_releases_of_one_name_that_watch_different_namespaces_do_not_conflict(
    policy_server: ApiServer, helm: Helm
) -> None:
    releases = {}
    for team in ("team-a", "team-b"):
        assert policy_server.client.create("/api/v1/namespaces", {"metadata": {"name": team}}).ok
        found = policies(helm, "-n", team, "--set", f"watchNamespaces={{{team}}}", release="serving")
        install(policy_server, found, namespace=team)
        releases[team] = sorted(by_name(found))
    assert releases["team-a"] == ["serving-epd-operator-team-a-denials", "serving-epd-operator-team-a-warnings"]
    (case,) = [case for case in WARNINGS if case.sentence == "a short drain"]
    body = quiet(changes=dict(case.changes))
    everywhere = "epd-operator-warnings"
    for namespace, scoped in (("default", set()), *((team, {found[1]}) for team, found in releases.items())):
        answer = policy_server.client.create(collection(namespace), body, dry_run=True)
        assert {warning.policy for warning in warnings(answer)} == {everywhere, *scoped}


# Documentation


@pytest.mark.parametrize("kind", ["warnings", "denials"])
def test_admission_md_explains_every_rule_and_no_other(rendered: list[Object], kind: str) -> None:
    text = (ROOT / "docs" / "admission.md").read_text()
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    (section,) = [found for found in part if found.startswith(f"{kind.capitalize()}\n")]
    explained = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^### |\Z)", section, re.MULTILINE | re.DOTALL))
    assert list(explained) == names(by_name(rendered)[f"epd-operator-{kind}"])
    assert {name: len(words.split()) for name, words in explained.items() if len(words.split()) < 20} == {}


def test_the_warning_that_admission_md_shows_is_the_real_one(policy_server: ApiServer) -> None:
    text = (ROOT / "docs" / "admission.md").read_text()
    body = quiet(changes={"frontend.replicas": 1})
    (warning,) = warnings(policy_server.client.create(collection(), body, dry_run=True))
    assert f"\nWarning: {warning.whole}\n" in text


def test_admission_md_shows_the_annotation_that_policies_read(rendered: list[Object]) -> None:
    assert f"    {ACCEPTED}: " in (ROOT / "docs" / "admission.md").read_text()
    assert f"annotations['{ACCEPTED}']" in json.dumps(rendered)
