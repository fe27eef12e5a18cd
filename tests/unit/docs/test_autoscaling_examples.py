"""The autoscaling tutorial has the numbers that the operator computes, and its manifests refer to existing objects."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from epd_operator.api.v1alpha1 import EPDDeployment
from epd_operator.api.v1alpha1.autoscaling import Autoscaling
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.pod_metrics import ENGINE_METRICS
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.plan.children.stage_scale import scale_status, stage_scale
from epd_operator.plan.replicas import gpus_of, mode_of, settings_of
from epd_operator.scaling.decision import decide_all
from epd_operator.scaling.model import Decision, PodLoad, StageObservation
from epd_operator.scaling.state import StageState

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "autoscaling"
TUTORIAL = (ROOT / "docs" / "autoscaling-tutorial.md").read_text()
PAGES = ROOT / "tests" / "monitoring" / "pages"
STAGES = (StageKey(StageName.ENCODER), StageKey(StageName.PD))

EXAMPLE = "<!-- worked example -->"
LOAD = re.compile(r"(\d+) \(([\d, ]+)\)")
SELECTOR = re.compile(r"([a-zA-Z_][\w:]*)\{([^{}]*)\}")
LABEL = re.compile(r'(\w+)="([^"]*)"')

Object = dict[str, Any]


def documents(name: str) -> list[Object]:
    """The documents of one of the example files."""
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def deployment(name: str) -> EPDDeployment:
    """The EPDDeployment of one of the example files."""
    (document,) = documents(name)
    return EPDDeployment.model_validate(document)


# The worked example


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One stage in one row of the table."""

    total: int
    loads: tuple[int, ...]
    before: int
    after: int
    reason: str


def rows() -> list[tuple[int, dict[StageKey, Cell]]]:
    """Seconds since the start, and the two stages, for each row of the table."""
    lines = TUTORIAL.split(EXAMPLE)[1].strip().split("\n\n")[0].splitlines()[2:]
    found = []
    for line in lines:
        time, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        minutes, seconds = time.split(":")
        stages = {stage: _cell(cells[4 * n : 4 * n + 4]) for n, stage in enumerate(STAGES)}
        found.append((60 * int(minutes) + int(seconds), stages))
    return found


def _cell(texts: list[str]) -> Cell:
    load, ready, replicas, reason = texts
    match = LOAD.fullmatch(load)
    assert match is not None, load
    each = [int(number) for number in match[2].split(", ")]
    loads = each if len(each) > 1 else each * int(ready)
    assert len(loads) == int(ready), load
    before, after = (int(number) for number in replicas.split(" → "))
    return Cell(total=int(match[1]), loads=tuple(loads), before=before, after=after, reason=reason)


def decisions() -> Iterator[tuple[int, dict[StageKey, Decision]]]:
    """The operator's decisions at every interval up to the last row, under the load of the last row so far."""
    spec = deployment("internal.yaml").spec
    settings: dict[StageKey, Autoscaling | None] = {}
    gpus, replicas = {}, {}
    for stage in STAGES:
        of_stage = settings_of(spec, stage.name)
        assert of_stage is not None
        settings[stage], gpus[stage], replicas[stage] = of_stage.autoscaling, gpus_of(of_stage), of_stage.replicas
    states: dict[StageKey, StageState] = {}
    table = rows()
    for at in range(0, table[-1][0] + 1, spec.scaling.interval_seconds):
        stages = [stages for start, stages in table if start <= at][-1]
        observed = [
            _observed(stage, at=at, loads=stages[stage].loads, replicas=replicas[stage], gpus=gpus[stage])
            for stage in STAGES
        ]
        states, made = decide_all(states, observed, settings, spec.scaling)
        yield at, {decision.stage: decision for decision in made}
        replicas = {decision.stage: decision.desired for decision in made}


def _observed(stage: StageKey, *, at: int, loads: tuple[int, ...], replicas: int, gpus: int) -> StageObservation:
    ready = [PodLoad(name=f"{stage}-{n}", ready=True, requests=load, measured_at=at) for n, load in enumerate(loads)]
    starting = [PodLoad(name=f"{stage}-{n}", ready=False) for n in range(len(loads), replicas)]
    return StageObservation(stage=stage, at=at, replicas=replicas, pods=(*ready, *starting), gpus_per_replica=gpus)


@pytest.mark.parametrize(("at", "stages"), rows(), ids=lambda value: str(value) if isinstance(value, int) else "")
def test_each_row_of_the_worked_example_equals_the_decision_of_the_operator(
    at: int, stages: dict[StageKey, Cell]
) -> None:
    made = dict(decisions())[at]
    for stage, cell in stages.items():
        assert cell.total == sum(cell.loads)
        assert (cell.before, cell.after, cell.reason) == (
            made[stage].current,
            made[stage].desired,
            str(made[stage].reason),
        )


def test_replicas_change_only_in_rows_of_the_worked_example() -> None:
    shown = {at for at, _ in rows()}
    changes = {at for at, made in decisions() if any(d.current != d.desired for d in made.values())}
    assert changes - shown == set()


def test_the_divisions_in_the_text_are_correct() -> None:
    text = " ".join(TUTORIAL.split())
    rounded = re.findall(r"(\d+) / (\d+(?:\.\d+)?) = (\d+(?:\.\d+)?), rounded up to (\d+)", text)
    assert len(rounded) == text.count("rounded up to")
    assert len(rounded) >= 10
    for dividend, divisor, quotient, ceiling in rounded:
        exact = int(dividend) / float(divisor)
        places = len(quotient.partition(".")[2])
        assert (round(exact, places), math.ceil(exact)) == (float(quotient), int(ceiling))


def test_the_settings_in_the_text_equal_those_of_the_example() -> None:
    (written,) = documents("internal.yaml")
    first, *_ = [yaml.safe_load(t) for t in re.findall(r"^```yaml\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)]
    for name, value in first.items():
        assert value.items() <= written["spec"][name].items()


def test_the_two_examples_differ_only_in_autoscaling() -> None:
    specs = []
    for name in ("internal.yaml", "external.yaml"):
        (document,) = documents(name)
        spec = {key: value for key, value in document["spec"].items() if key != "scaling"}
        for stage in STAGES:
            spec[stage.name] = {key: value for key, value in spec[stage.name].items() if key != "autoscaling"}
        specs.append((document["metadata"], spec))
    assert specs[0] == specs[1]


# Manifests of HorizontalPodAutoscaler and KEDA


def autoscalers() -> list[Any]:
    """Each autoscaler of the examples, with the stage that its name ends with."""
    found = []
    for name in ("hpa.yaml", "keda.yaml"):
        for document in documents(name):
            stage = StageKey(StageName(document["metadata"]["name"].rpartition("-")[2]))
            found.append(pytest.param(document, stage, id=f"{name}-{stage}"))
    return found


def test_there_is_one_autoscaler_of_each_kind_for_each_stage() -> None:
    found = [(p.values[0]["kind"], p.values[1]) for p in autoscalers()]
    assert found == [(kind, stage) for kind in ("HorizontalPodAutoscaler", "ScaledObject") for stage in STAGES]


@pytest.mark.parametrize(("autoscaler", "stage"), autoscalers())
def test_an_autoscaler_targets_the_scale_object_that_the_operator_creates(autoscaler: Object, stage: StageKey) -> None:
    external = deployment("external.yaml")
    assert str(mode_of(external.spec, stage.name)) == "External"
    identity = Identity(name=external.metadata["name"], namespace="default", uid="1")
    created = stage_scale(identity=identity, stage=stage.name)
    expected = {**{key: created[key] for key in ("apiVersion", "kind")}, "name": created["metadata"]["name"]}
    assert autoscaler["spec"]["scaleTargetRef"] == expected
    assert scale_status(identity=identity, stage=stage, pods=1)["selector"] == (
        f"app.kubernetes.io/component={stage},epd.dev/deployment={identity.name},epd.dev/revision=initial"
    )


@pytest.mark.parametrize(("autoscaler", "stage"), autoscalers())
def test_an_autoscaler_has_the_limits_and_the_target_of_the_deployments(autoscaler: Object, stage: StageKey) -> None:
    spec = autoscaler["spec"]
    limits = {
        (spec.get("minReplicas", spec.get("minReplicaCount")), spec.get("maxReplicas", spec.get("maxReplicaCount")))
    }
    targets = {float(target) for target in _targets(spec)}
    for name in ("internal.yaml", "external.yaml"):
        of_stage = settings_of(deployment(name).spec, stage.name)
        assert of_stage is not None
        assert of_stage.autoscaling is not None
        limits.add((of_stage.autoscaling.min_replicas, of_stage.autoscaling.max_replicas))
        targets.update(float(metric.target_per_replica) for metric in of_stage.autoscaling.metrics or ())
    assert len(limits) == len(targets) == 1


def _targets(spec: Object) -> Iterator[str]:
    for metric in spec.get("metrics", ()):
        yield metric["pods"]["target"]["averageValue"]
    for trigger in spec.get("triggers", ()):
        yield trigger["metadata"]["threshold"]


def unknown_fields(value: Any, kind: str, path: str = "") -> list[str]:
    """Fields that a type of the Kubernetes API does not have, by the official client's models."""
    listed = re.fullmatch(r"(?:list|List)\[(.+)\]", kind)
    if listed:
        return [name for n, item in enumerate(value) for name in unknown_fields(item, listed[1], f"{path}[{n}]")]
    model = getattr(kubernetes.client, kind, None)
    if model is None or not isinstance(value, dict):
        return []
    types = {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
    found = [f"{path}.{name}" for name in value if name not in types]
    for name, item in value.items():
        if name in types:
            found += unknown_fields(item, types[name], f"{path}.{name}")
    return found


@pytest.mark.parametrize("document", documents("hpa.yaml"))
def test_the_horizontal_pod_autoscalers_have_only_fields_that_exist(document: Object) -> None:
    assert document["apiVersion"] == "autoscaling/v2"
    assert unknown_fields(document, "V2HorizontalPodAutoscaler") == []


def test_a_field_that_does_not_exist_is_found() -> None:
    wrong = {"spec": {"metrics": [{"type": "Pods", "pods": {"metricName": "x"}}]}}
    assert unknown_fields(wrong, "V2HorizontalPodAutoscaler") == [".spec.metrics[0].pods.metricName"]


# Fields of keda.sh/v1alpha1 ScaledObject, from KEDA's specification.
SCALED_OBJECT = {
    "scaleTargetRef": {"apiVersion", "kind", "name", "envSourceContainerName"},
    "advanced": {"restoreToOriginalReplicaCount", "horizontalPodAutoscalerConfig", "scalingModifiers"},
    "fallback": {"failureThreshold", "replicas", "behavior"},
}
SCALED_OBJECT_NUMBERS = {
    "pollingInterval",
    "cooldownPeriod",
    "initialCooldownPeriod",
    "idleReplicaCount",
    "minReplicaCount",
    "maxReplicaCount",
}
PROMETHEUS_TRIGGER = {"serverAddress", "query", "threshold", "activationThreshold", "ignoreNullValues"}


@pytest.mark.parametrize("document", documents("keda.yaml"))
def test_the_scaled_objects_have_only_fields_that_exist(document: Object) -> None:
    spec = document["spec"]
    assert (document["apiVersion"], document["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    assert spec.keys() <= SCALED_OBJECT.keys() | SCALED_OBJECT_NUMBERS | {"triggers"}
    assert all(spec[name].keys() <= fields for name, fields in SCALED_OBJECT.items() if name in spec)
    assert all(isinstance(spec[name], int) for name in SCALED_OBJECT_NUMBERS & spec.keys())
    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert unknown_fields(behavior, "V2HorizontalPodAutoscalerBehavior") == []
    (trigger,) = spec["triggers"]
    assert trigger.keys() == {"type", "metricType", "metadata"}
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert trigger["metadata"].keys() <= PROMETHEUS_TRIGGER
    assert all(isinstance(value, str) for value in trigger["metadata"].values())


@pytest.mark.parametrize("document", documents("keda.yaml"))
def test_missing_data_is_an_error_for_keda_and_not_zero_requests(document: Object) -> None:
    assert [t["metadata"]["ignoreNullValues"] for t in document["spec"]["triggers"]] == ["false"]


# Metrics


def rules() -> list[Object]:
    """The rules for the Prometheus adapter."""
    (config,) = documents("prometheus-adapter.yaml")
    found: list[Object] = yaml.safe_load(config["data"]["config.yaml"])["rules"]
    return found


def queries() -> list[Any]:
    """All PromQL of the examples, with the stage that it is about."""
    found = [
        pytest.param(trigger["metadata"]["query"], stage, id=f"keda-{stage}")
        for document, stage in (p.values for p in autoscalers())
        for trigger in document["spec"].get("triggers", ())
    ]
    for rule in rules():
        stage = StageKey(StageName(rule["name"]["as"].split("_")[1]))
        text = rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="default",pod="a"')
        found.append(pytest.param(text, stage, id=f"adapter-{stage}"))
    return found


@pytest.mark.parametrize(("query", "stage"), queries())
def test_a_query_names_metrics_and_labels_that_the_stage_has(query: str, stage: StageKey) -> None:
    selectors = SELECTOR.findall(query)
    assert selectors
    page = text_string_to_metric_families((PAGES / f"{stage}_busy.txt").read_text())
    samples = [sample for family in page for sample in family.samples]
    for metric, matchers in selectors:
        assert metric in ENGINE_METRICS
        labels = dict(LABEL.findall(matchers))
        assert labels.pop("stage") == stage.name
        # These come from Prometheus, not from the pod: docs/monitoring.md.
        own = {key: value for key, value in labels.items() if key not in ("namespace", "pod", "deployment")}
        assert [s for s in samples if s.name == metric and own.items() <= s.labels.items()]


def test_the_metrics_of_the_horizontal_pod_autoscalers_are_those_of_the_adapter() -> None:
    served = [rule["name"]["as"] for rule in rules()]
    asked = [m["pods"]["metric"]["name"] for document in documents("hpa.yaml") for m in document["spec"]["metrics"]]
    assert asked == served


def test_the_adapter_discovers_each_metric_by_a_series_of_its_query() -> None:
    for rule in rules():
        ((series, _),) = SELECTOR.findall(rule["seriesQuery"].replace("!=", "="))
        assert series in rule["metricsQuery"]
