"""The objects that the chart renders, with Helm 3 and Helm 4 and without a cluster."""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator import __main__ as command_line
from epd_operator import __version__
from support.chart_readme import README, VALUES, current, values
from support.chart_values import FULL, SETS
from support.charts import CRD_FILES, EPD, ROOT, crd
from support.helm import CHART, Helm, HelmError

every_set = pytest.mark.parametrize("chosen", SETS.values(), ids=list(SETS))


@pytest.fixture(scope="module")
def render(offline_helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The objects for some values; the same values are rendered once."""
    folder, done = tmp_path_factory.mktemp("values"), {}

    def rendered(chosen: dict[str, Any]) -> list[dict[str, Any]]:
        text = yaml.safe_dump(chosen)
        if text not in done:
            (folder / "values.yaml").write_text(text)
            done[text] = offline_helm.template("-f", str(folder / "values.yaml"))
        return copy.deepcopy(done[text])

    return rendered


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [item for item in objects if item["kind"] == kind]
    return found


def kinds(objects: list[dict[str, Any]]) -> set[str]:
    return {item["kind"] for item in objects}


def test_lint_has_no_warnings_or_errors(offline_helm: Helm) -> None:
    output = offline_helm.run("lint", "--strict", str(CHART))
    assert "[WARNING]" not in output
    assert "[ERROR]" not in output


@every_set
def test_every_object_has_the_standard_labels_and_the_common_ones(render: Any, chosen: dict[str, Any]) -> None:
    for item in render(chosen):
        labels = item["metadata"]["labels"]
        standard = ("name", "instance", "version", "managed-by")
        assert all(labels.get(f"app.kubernetes.io/{name}") for name in standard), item["metadata"]["name"]
        assert labels["helm.sh/chart"].startswith("epd-operator-")
        assert chosen.get("commonLabels", {}).items() <= labels.items()


LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
"""https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set"""


@pytest.mark.parametrize(
    "version", ["0.2.0+9f86d081884c", "0.2.0-rc.1+sha.9f86d0", *(f"0.2.0-{'a' * n}.b+c" for n in range(40, 48))]
)
def test_labels_are_valid_for_the_versions_that_tools_give_a_chart(
    offline_helm: Helm, tmp_path: Path, version: str
) -> None:
    """Flux adds the digest of an artifact to the version: https://fluxcd.io/flux/components/helm/helmreleases/."""
    chart = Path(shutil.copytree(CHART, tmp_path / "epd-operator"))
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": version}))
    for item in offline_helm.template(chart=chart):
        labels = item["metadata"]["labels"].values()
        assert [value for value in labels if not LABEL_VALUE.fullmatch(value)] == []


@every_set
def test_the_operator_accepts_every_argument_of_the_chart(render: Any, chosen: dict[str, Any]) -> None:
    (container,) = one(render(chosen), "Deployment")["spec"]["template"]["spec"]["containers"]
    options = command_line.parse(container["args"])
    assert list(options.namespaces) == chosen.get("watchNamespaces", [])
    assert options.prometheus_url == chosen.get("prometheusUrl", "")
    assert options.worker_role == chosen.get("workerRole", {}).get("name", "epd-worker-discovery")
    assert options.leader_election is chosen.get("leaderElection", {}).get("enabled", True)


def test_the_operator_uses_the_lease_that_it_may_write(render: Any) -> None:
    for chosen in ({}, SETS["renamed"]):
        objects = render(chosen)
        (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        options = command_line.parse(container["args"])
        (role,) = [item for item in objects if item["kind"] == "Role"]
        assert options.lease_namespace == role["metadata"]["namespace"]
        assert [options.lease_name] in [rule.get("resourceNames") for rule in role["rules"]]


def test_pods_have_all_labels_and_the_selector_has_only_labels_that_never_change(render: Any) -> None:
    spec = one(render(FULL), "Deployment")["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert {**FULL["commonLabels"], **FULL["podLabels"]}.items() <= labels.items()
    assert set(spec["selector"]["matchLabels"]) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    assert "helm.sh/chart" not in labels


def test_a_spread_constraint_counts_the_pods_of_one_revision_on_nodes_that_the_operator_may_use(render: Any) -> None:
    spec = one(render(FULL), "Deployment")["spec"]
    (constraint,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchLabels"] == spec["selector"]["matchLabels"]
    assert constraint["matchLabelKeys"] == ["pod-template-hash"]
    assert constraint["nodeTaintsPolicy"] == "Honor"
    assert constraint["maxSkew"] == 1


def test_fields_that_a_spread_constraint_sets_are_kept(render: Any) -> None:
    own = {
        "maxSkew": 2,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "mine"}},
        "matchLabelKeys": [],
        "nodeTaintsPolicy": "Ignore",
    }
    spec = one(render({"topologySpreadConstraints": [own]}), "Deployment")["spec"]
    (constraint,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert constraint == own


def test_with_election_a_new_pod_starts_first_and_without_it_the_old_pod_ends_first(render: Any) -> None:
    with_election = one(render({}), "Deployment")["spec"]["strategy"]
    assert with_election == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    assert one(render(SETS["without election"]), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_there_is_a_disruption_budget_only_with_several_replicas(render: Any) -> None:
    assert "PodDisruptionBudget" not in kinds(render({}))
    assert one(render({"replicas": 2}), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_network_policy_opens_the_two_ports_of_the_pod_and_no_other(render: Any) -> None:
    objects = render({})
    policy = one(objects, "NetworkPolicy")["spec"]
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    opened = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert sorted(opened) == sorted(port["name"] for port in container["ports"])
    assert policy["policyTypes"] == ["Ingress"]
    restricted = one(render(FULL), "NetworkPolicy")["spec"]
    assert restricted["policyTypes"] == ["Ingress", "Egress"]
    assert [rule.get("from") for rule in restricted["ingress"]] == [None, FULL["networkPolicy"]["metricsFrom"]]


def test_probes_use_the_health_port(render: Any) -> None:
    (container,) = one(render({}), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "health", "containerPort": 8081} in container["ports"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_with_watch_namespaces_all_cluster_scoped_objects_can_be_created_separately(render: Any) -> None:
    apart = {"workerRole": {"create": False}, "crds": {"install": "Never", "dynamo": "Never"}}
    objects = render({**SETS["namespaced"], **apart, "admission": {"enabled": False}})
    assert all(item["metadata"].get("namespace") for item in objects), kinds(objects)
    roles = [item for item in objects if item["kind"] == "Role"]
    assert sorted(role["metadata"]["namespace"] for role in roles) == ["epd-system", "team-a", "team-b"]


def test_the_lease_is_granted_in_the_operators_namespace_only(render: Any) -> None:
    for chosen in ({}, SETS["namespaced"]):
        granting = [item for item in render(chosen) if "leases" in str(item.get("rules"))]
        assert [(item["kind"], item["metadata"]["namespace"]) for item in granting] == [("Role", "epd-system")]
    assert not [item for item in render(SETS["without election"]) if "leases" in str(item.get("rules"))]


def test_the_operator_may_bind_the_worker_role_of_its_release_and_no_other(render: Any) -> None:
    rules = [rule for item in render(SETS["renamed"]) for rule in item.get("rules", ())]
    assert [rule["resourceNames"] for rule in rules if "bind" in rule.get("verbs", ())] == [["other-workers"]]


@pytest.mark.parametrize("name", CRD_FILES)
def test_the_charts_crds_are_those_of_the_repository(render: Any, name: str) -> None:
    file = CRD_FILES[name]
    assert (CHART / "files" / "crds" / file).read_text() == (ROOT / "crds" / file).read_text()
    (rendered,) = [item for item in render({}) if item["metadata"]["name"] == name]
    assert rendered["spec"] == crd(name)["spec"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("replicas=2,leaderElection.enabled=false", "at '/leaderElection/enabled': value must be true"),
        ("replcas=2", "additional properties 'replcas' not allowed"),
        ("image.tga=x", "at '/image': additional properties 'tga' not allowed"),
        ("replicas=two", "at '/replicas': got string, want integer"),
        ("logLevel=debug", "at '/logLevel': value must be one of 'DEBUG', 'INFO', 'WARNING'"),
        ("crds.install=auto", "at '/crds/install': value must be one of 'Auto', 'Always', 'Never'"),
        ("watchNamespaces={Team}", "at '/watchNamespaces/0': 'Team' does not match pattern"),
        ("watchNamespaces={a,a}", "at '/watchNamespaces': items at 0 and 1 are equal"),
        ("serviceAccount.create=false", "at '/serviceAccount/name': minLength: got 0, want 1"),
        ("networkPolicy.egress.enabled=true", "at '/networkPolicy/egress/rules': minItems: got 0, want 1"),
        ("commonLabels.helm\\.sh/chart=mine", "invalid propertyName 'helm.sh/chart'"),
        ("podLabels.a=b c", "at '/podLabels/a': 'b c' does not match pattern"),
        ("prometheusUrl=http://user:secret@host", "at '/prometheusUrl'"),
        ("resources.limit.cpu=1", "at '/resources': additional properties 'limit' not allowed"),
        ("workers=0", "at '/workers': minimum: got 0, want 1"),
        ("workerRole.name=", "at '/workerRole/name'"),
    ],
)
def test_wrong_values_are_refused_with_their_path(offline_helm: Helm, arguments: str, message: str) -> None:
    with pytest.raises(HelmError) as refusal:
        offline_helm.template("--set", arguments)
    assert message in str(refusal.value)


def test_the_readme_lists_the_values_of_values_yaml() -> None:
    assert README.read_text() == current(README.read_text(), values_text=VALUES.read_text())


def test_every_value_is_in_the_schema() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    for value in values(VALUES.read_text()):
        at = schema
        for part in value.path.split("."):
            if "$ref" in at:
                at = schema["definitions"][at["$ref"].rsplit("/", 1)[1]]
            assert part in at["properties"], value.path
            at = at["properties"][part]


def test_the_chart_installs_the_operator_of_this_repository() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_the_annotations_for_artifact_hub_match_the_chart(render: Any) -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    notes = about["annotations"]
    (container,) = one(render({}), "Deployment")["spec"]["template"]["spec"]["containers"]
    (image,) = yaml.safe_load(notes["artifacthub.io/images"])
    assert image["image"] == container["image"]
    ours = {name: crd(name)["spec"] for name in CRD_FILES}
    shown = {item["name"]: item for item in yaml.safe_load(notes["artifacthub.io/crds"])}
    assert set(shown) == set(ours)
    for name, spec in ours.items():
        assert shown[name]["kind"] == spec["names"]["kind"]
        assert shown[name]["version"] == spec["versions"][0]["name"]
    assert {item["kind"] for item in yaml.safe_load(notes["artifacthub.io/changes"])} <= {"added", "changed", "fixed"}
    assert EPD in shown


# The guide

GUIDE = ROOT / "docs" / "install.md"


def test_the_values_for_production_of_the_guide_are_accepted(render: Any) -> None:
    (block,) = re.findall(r"^```\n# values.yaml\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    objects = render(yaml.safe_load(block))
    assert one(objects, "Deployment")["spec"]["replicas"] == 2
    assert "PodDisruptionBudget" in kinds(objects)


POLICIES = sorted(path.relative_to(CHART) for path in (CHART / "templates" / "admission").glob("*.yaml"))


@pytest.mark.parametrize("file", POLICIES, ids=lambda path: path.stem)
def test_the_guide_applies_every_policy_separately_and_each_can_be_rendered_alone(
    offline_helm: Helm, file: Path
) -> None:
    assert f"--show-only {file}" in (ROOT / "docs" / "install.md").read_text()
    found = offline_helm.template("--show-only", str(file))
    assert kinds(found) == {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert kinds(offline_helm.template("--show-only", "templates/worker-role.yaml")) == {"ClusterRole"}


OBJECTIVE = {"timeToFirstTokenSeconds": 1}
NUMBERS = {
    "nameOverride": "86420",
    "priorityClassName": "97531",
    "serviceAccount": {"name": "13579"},
    "workerRole": {"name": "24680"},
    "monitoring": {
        "podMonitors": {"enabled": True, "labels": {"release": "12345"}},
        "rules": {"enabled": True, "objectives": [{"namespace": "67890", "deployment": "1", **OBJECTIVE}]},
        "dashboards": {"enabled": True},
    },
}


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("fullname", ["", "11111"])
@pytest.mark.parametrize("scope", [[], ["67890"]])
def test_names_that_look_like_numbers_stay_strings(
    offline_helm: Helm, tmp_path: Path, fullname: str, scope: list[str]
) -> None:
    chosen = {**NUMBERS, "watchNamespaces": scope, "fullnameOverride": fullname}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(chosen))
    rendered = offline_helm.template("-f", str(tmp_path / "values.yaml"), release="12345")
    numbers = {leaf for leaf in leaves(rendered) if isinstance(leaf, int)}
    assert not numbers & {12345, 67890, 86420, 97531, 13579, 24680, 11111}


@pytest.mark.parametrize("release", ["a" * 46 + ".bcdefg", "a" * 48 + "--bcd", "a" * 50 + "-bc", "1." + "b" * 51])
def test_a_long_release_name_is_shortened_to_a_valid_name(offline_helm: Helm, release: str) -> None:
    for item in offline_helm.template(release=release):
        assert re.fullmatch(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", item["metadata"]["name"]
        )


OF_KUBERNETES = ("resources", "affinity")


def all_null(schema: dict[str, Any], *, whole: bool) -> dict[str, Any]:
    """Null for every value that may be omitted; with ``whole``, null for every section that may be omitted."""
    found: dict[str, Any] = {}
    for name, part in schema["properties"].items():
        needed = name in schema.get("required", ())
        ours = "properties" in part and name not in OF_KUBERNETES
        if ours and (needed or not whole):
            found[name] = all_null(part, whole=whole)
        elif not needed:
            found[name] = None
    return found


@pytest.mark.parametrize("whole", [False, True], ids=["values", "sections"])
def test_a_null_value_is_treated_as_absent(offline_helm: Helm, tmp_path: Path, whole: bool) -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    chosen = {**all_null(schema, whole=whole), "global": {}}
    if not whole:
        for section in chosen["monitoring"].values():
            section["enabled"] = True
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(chosen))
    assert kinds(offline_helm.template("-f", str(tmp_path / "values.yaml"))) >= {"Deployment", "NetworkPolicy"}
