"""A real HorizontalPodAutoscaler drives the scale of a stage.

The HPA controller reads external metrics from the API group external.metrics.k8s.io, which an adapter would serve.
Here a CustomResourceDefinition of that group replaces the adapter: a list of its objects has the same types.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from epd_operator.cluster.client import Cluster, connect
from epd_operator.objects.identity import Key
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT
from epd_operator.reconcile.reconciler import Reconciler
from support.apiserver import ApiServer
from support.specs import raw_spec
from support.waiting import eventually

ROOT = Path(__file__).parents[2]
METRIC = "encoderqueue"
NAMESPACE = "default"
EXAMPLES = list(yaml.safe_load_all((ROOT / "examples" / "autoscaling" / "hpa.yaml").read_text()))

METRICS_CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"{METRIC}.external.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for a metrics adapter in a test"},
    },
    "spec": {
        "group": "external.metrics.k8s.io",
        "names": {"kind": "ExternalMetricValue", "listKind": "ExternalMetricValueList", "plural": METRIC},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "metricName": {"type": "string"},
                            "timestamp": {"type": "string"},
                            "value": {"type": "string"},
                        },
                    }
                },
            }
        ],
    },
}

HPA: dict[str, Any] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "encoder"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDStageScale", "name": "qwen-encoder"},
        "minReplicas": 1,
        "maxReplicas": 6,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": METRIC},
                    "target": {"type": "AverageValue", "averageValue": "4"},
                },
            }
        ],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("hpa")
    flags = ["--horizontal-pod-autoscaler-sync-period=1s"]
    with ApiServer(folder=folder, with_controllers=True, controller_flags=flags) as started:
        started.install_crds(ROOT / "crds")
        started.install_crd(METRICS_CRD)
        yield started


@pytest.fixture
async def cluster(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    async with connect() as connected:
        yield connected


def report(server: ApiServer, value: str) -> None:
    """Set the metric, as the adapter would."""
    body = {
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "kind": "ExternalMetricValue",
        "metadata": {"name": "total"},
        "metricName": METRIC,
        "timestamp": "2026-01-01T00:00:00Z",
        "value": value,
    }
    path = f"/apis/external.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/{METRIC}/total?fieldManager=test&force=true"
    answer = server.client.request("PATCH", path, body, content_type="application/apply-patch+yaml")
    assert answer.ok, answer.message


async def follow(server: ApiServer, cluster: Cluster, *, replicas: int) -> None:
    """Reconcile, as events would cause it, until the encoders' Deployment has that many replicas."""

    async def followed() -> bool:
        await Reconciler(cluster).reconcile(Key(NAMESPACE, "qwen"))
        live = await cluster.get(DEPLOYMENT, namespace=NAMESPACE, name="qwen-encoder")
        return live is not None and live["spec"]["replicas"] == replicas

    async def state() -> str:
        hpa = server.client.get(f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/encoder").body
        return f"not {replicas} replicas; {hpa.get('status')}"

    await eventually(followed, state=state)


async def test_a_stock_hpa_scales_a_stage_up_and_down_and_the_spec_is_never_written(
    server: ApiServer, cluster: Cluster
) -> None:
    encoder = {"pool": "rtx", "replicas": 2, "autoscaling": {"mode": "External", "maxReplicas": 6}}
    body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen"}}
    body["spec"] = raw_spec(encoder=encoder)
    assert server.client.create(f"/apis/epd.dev/v1alpha1/namespaces/{NAMESPACE}/epddeployments", body).ok
    report(server, "8")
    await follow(server, cluster, replicas=2)
    assert server.client.create(f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers", HPA).ok
    report(server, "20")
    await follow(server, cluster, replicas=5)
    report(server, "100")
    await follow(server, cluster, replicas=6)
    report(server, "4")
    await follow(server, cluster, replicas=1)
    primary = await cluster.get(EPD_DEPLOYMENT, namespace=NAMESPACE, name="qwen")
    assert primary is not None
    assert primary["metadata"]["generation"] == 1
    assert primary["spec"]["encoder"]["replicas"] == 2


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: document["metadata"]["name"])
def test_an_example_of_a_stock_hpa_is_accepted_under_strict_field_validation(
    server: ApiServer, document: dict[str, Any]
) -> None:
    path = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
    answer = server.client.create(path, document, dry_run=True)
    assert answer.ok, answer.message
    assert answer.warnings == ()
