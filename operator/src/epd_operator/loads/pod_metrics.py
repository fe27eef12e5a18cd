"""Reads loads and latencies from a pod's metrics page.

The names of the metrics are from real pages of Dynamo 1.6 and vLLM 0.31.
"""

from __future__ import annotations

from dataclasses import dataclass

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.backends import dynamo
from epd_operator.backends.backend import EngineMetrics
from epd_operator.backends.registry import BACKENDS
from epd_operator.loads.latency import LatencyTotals, StageTotals, Totals
from epd_operator.loads.text_format import Finder, Samples

ENGINES = tuple(backend.metrics for backend in BACKENDS.values())


def _parts(*histograms: str) -> list[str]:
    return [f"{name}_{part}" for name in histograms for part in ("sum", "count")]


FRONTEND_METRICS = (
    *(dynamo.ACTIVE_REQUESTS, dynamo.SERVED_REQUESTS, dynamo.DISCONNECTED_CLIENTS),
    *_parts(dynamo.TIME_TO_FIRST_TOKEN, dynamo.INTER_TOKEN_LATENCY),
)
ENGINE_METRICS = (
    *(dynamo.IN_FLIGHT_REQUESTS, dynamo.PICKUP_QUEUE, *_parts(dynamo.REQUEST_SECONDS)),
    *(name for engine in ENGINES for name in (*engine.gauges, *_parts(*engine.histograms))),
)

_FRONTEND_FINDER = Finder(FRONTEND_METRICS)
_ENGINE_FINDER = Finder(ENGINE_METRICS)


@dataclass(frozen=True, kw_only=True)
class PageReading:
    """Values of a page. None means that the page does not contain the value, which is different from zero.

    Attributes:
        requests: running and waiting requests of the pod.
        kv_cache_percent: usage of the KV cache, 0 to 100.
        latency: latency totals of a frontend.
        stages: latency totals of an encoder or engine.
    """

    requests: float | None = None
    kv_cache_percent: float | None = None
    latency: LatencyTotals | None = None
    stages: StageTotals | None = None


def read_page(page: bytes, *, stage: StageName, at: float) -> PageReading:
    """Read the page of a pod of this stage, requested at this time. Never raises an error, even for an invalid page."""
    finder = _FRONTEND_FINDER if stage is StageName.FRONTEND else _ENGINE_FINDER
    return read_samples(finder.find(page), stage=stage, at=at)


def read_samples(samples: Samples, *, stage: StageName, at: float) -> PageReading:
    """Read the same values from samples, such as those of a Prometheus server."""
    if stage is StageName.FRONTEND:
        return _read_frontend(samples, at=at)
    if stage is StageName.ENCODER:
        return PageReading(
            requests=_requests_in_process(samples, dynamo_component="encode"), stages=_encoder_totals(samples)
        )
    kv_cache_percent = _kv_cache_percent(samples)
    in_engine = _requests_in_engine(samples)
    stages = _engine_totals(samples)
    if stage is StageName.PD:
        # Dynamo's count of requests in the process includes requests that wait for an encoder. They are the load of the
        # encoders, and more PD workers would not help (measured: 18 requests in the process, an idle engine, and 17
        # requests at the encoder). So only the engine's count is used.
        return PageReading(requests=in_engine, kv_cache_percent=kv_cache_percent, stages=stages)
    # In the other stages, the pod does all the work, so requests on their way to the engine are also its load. Both
    # metrics count the same requests, and the engine's gauges are updated later. So the larger value is used.
    in_process = _requests_in_process(samples)
    missing = in_engine is None or in_process is None
    requests = None if missing else max(in_engine or 0.0, in_process or 0.0)
    return PageReading(requests=requests, kv_cache_percent=kv_cache_percent, stages=stages)


def _read_frontend(samples: Samples, *, at: float) -> PageReading:
    # A frontend exports no request metrics before its first request. A page without them counts as zero requests only
    # if it has another metric of frontends. Otherwise a renamed metric would be read as zero requests.
    served = samples.has(dynamo.ACTIVE_REQUESTS) or samples.has(dynamo.SERVED_REQUESTS)
    if samples.total(dynamo.DISCONNECTED_CLIENTS) is not None and not served:
        return PageReading(
            requests=0.0, latency=LatencyTotals(measured_at=at, first_token=Totals(), inter_token=Totals())
        )
    first_token = _histogram(samples, dynamo.TIME_TO_FIRST_TOKEN)
    inter_token = _histogram(samples, dynamo.INTER_TOKEN_LATENCY)
    known = first_token is not None or inter_token is not None
    latency = LatencyTotals(measured_at=at, first_token=first_token, inter_token=inter_token) if known else None
    return PageReading(requests=samples.total(dynamo.ACTIVE_REQUESTS), latency=latency)


def _encoder_totals(samples: Samples) -> StageTotals | None:
    encode = _histogram(samples, dynamo.REQUEST_SECONDS, dynamo_component="encode", dynamo_endpoint="generate")
    return None if encode is None else StageTotals(encode=encode)


def _engine_totals(samples: Samples) -> StageTotals | None:
    queue, prefill, decode = (_histogram(samples, name) for name in _engine(samples).histograms)
    totals = StageTotals(queue=queue, prefill=prefill, decode=decode)
    return None if totals == StageTotals() else totals


def _histogram(samples: Samples, name: str, **labels: str) -> Totals | None:
    seconds, count = samples.total(f"{name}_sum", **labels), samples.total(f"{name}_count", **labels)
    return None if seconds is None or count is None else Totals(seconds=seconds, count=count)


def _requests_in_process(samples: Samples, **labels: str) -> float | None:
    """Requests for tokens or embeddings in the Dynamo process, including those that it has not started yet."""
    in_flight = samples.total(dynamo.IN_FLIGHT_REQUESTS, dynamo_endpoint="generate", **labels)
    queued = samples.total(dynamo.PICKUP_QUEUE) if samples.has(dynamo.PICKUP_QUEUE) else 0.0
    return None if in_flight is None or queued is None else in_flight + queued


def _engine(samples: Samples) -> EngineMetrics:
    """Metric names of the engine of this page; those of the first engine if the page has no engine metrics."""
    return next((engine for engine in ENGINES if samples.has(engine.running)), ENGINES[0])


def _requests_in_engine(samples: Samples) -> float | None:
    engine = _engine(samples)
    running, waiting = samples.total(engine.running), samples.total(engine.waiting)
    return None if running is None or waiting is None else running + waiting


def _kv_cache_percent(samples: Samples) -> float | None:
    """Usage of the KV cache. With more than one engine, the highest usage: that engine will preempt first."""
    shares = samples.values(_engine(samples).kv_cache_usage)
    return 100 * max(shares) if shares and max(shares) <= 1 else None
