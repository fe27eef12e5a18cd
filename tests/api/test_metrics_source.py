"""An object whose metrics the operator cannot get: the stage keeps its replicas, and status reports why."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry

from epd_operator.autoscaler.loop import Autoscaler
from epd_operator.loads.sources import open_sources
from epd_operator.objects.identity import Identity, Key
from epd_operator.objects.kinds import DEPLOYMENT, EPD_DEPLOYMENT
from epd_operator.reconcile.reconciler import Reconciler
from epd_operator.scaling.model import Decision
from epd_operator.telemetry.scaling_metrics import ScalingMetrics
from support.apiserver import ApiServer
from support.operated import new_world
from support.specs import raw_spec

SCALED = {"maxReplicas": 8, "metrics": [{"type": "Requests", "targetPerReplica": 4}]}
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def _ignore_decision(_identity: Identity, _decision: Decision) -> None:
    return


async def test_status_names_the_missing_setting_of_the_operator_and_the_stage_keeps_its_replicas(
    api_server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        new_world(api_server, monkeypatch) as world,
        open_sources(prometheus_url="", clock=lambda: 0.0, wall_clock=lambda: 0.0) as sources,
    ):
        scaler = Autoscaler(
            sources=sources,
            enqueue=lambda _: None,
            record_event=_ignore_decision,
            metrics=ScalingMetrics(CollectorRegistry()),
            clock=lambda: 0.0,
            now=lambda: NOW,
        )
        reconciler, key = Reconciler(world.cluster, scaling=scaler), Key(world.namespace, "qwen")
        worker = {"pool": "gb200", "replicas": 2, "autoscaling": SCALED}
        world.create(raw_spec("Aggregated", worker=worker, scaling={"metricsSource": "Prometheus"}))
        await reconciler.reconcile(key)
        await reconciler.reconcile(key)
        await scaler.round(key)
        await reconciler.reconcile(key)
        status = (await world.find(EPD_DEPLOYMENT, "qwen"))["status"]
        (scaling,) = [stage["scaling"] for stage in status["stages"] if "scaling" in stage]
        assert (scaling["current"], scaling["desired"], scaling["reason"]) == (2, 2, "MetricsMissing")
        assert "--prometheus-url (chart value prometheusUrl)" in scaling["message"]
        assert (await world.find(DEPLOYMENT, "qwen-worker"))["spec"]["replicas"] == 2
