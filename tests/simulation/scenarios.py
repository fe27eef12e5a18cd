"""The simulated scenarios: kinds of traffic and failures, on one Disaggregated deployment."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

from epd_operator.api.v1alpha1.autoscaling import RatioBand, Scaling, ServiceLevel
from simulation.cluster import StageModel
from simulation.engine import ENCODER, INTERVAL, PD, Result, Scaler, Simulation
from simulation.scalers import HpaScaler, OperatorScaler
from simulation.traffic import Curve, Request, requests

ENCODER_MODEL = StageModel(slots=4, target=3, start_replicas=1, cold_start=90.0)
PD_MODEL = StageModel(slots=8, target=6, start_replicas=3, cold_start=180.0)
ENCODE_SECONDS = 2.0
DECODE_SECONDS = 8.0
SEED = 20261129
BAND = RatioBand(min_percent=20, max_percent=60)
"""Half of the requests with an image need one encoder for four PD workers: a band around it."""
LEVEL = ServiceLevel(time_to_first_token_milliseconds=3000)

OPERATOR, WITH_BAND, WITH_LEVEL, HPA = "operator", "operator, band", "operator, SLO", "HPA"


def _constant(value: float) -> Curve:
    return lambda _: value


def _between(start: float, end: float, *, inside: float, outside: float) -> Curve:
    return lambda at: inside if start <= at < end else outside


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Traffic (requests per second) and failures."""

    name: str
    description: str
    duration: float = 2700.0
    rate: Curve = field(default_factory=lambda: _constant(2.0))
    image_share: Curve = field(default_factory=lambda: _constant(0.5))
    encoder: StageModel = ENCODER_MODEL
    pd: StageModel = PD_MODEL
    metrics_lost: tuple[float, float] = (-1.0, -1.0)
    silent: str | None = None

    @property
    def models(self) -> dict[str, StageModel]:
        """Both stages."""
        return {ENCODER: self.encoder, PD: self.pd}


SCENARIOS = {
    s.name: s
    for s in (
        Scenario(name="steady", description="3 requests/s", rate=_constant(3.0)),
        Scenario(name="step", description="2, then 6 requests/s", rate=_between(600, 9999, inside=6.0, outside=2.0)),
        Scenario(
            name="spike",
            description="10 requests/s for one minute, else 2",
            rate=_between(600, 660, inside=10.0, outside=2.0),
        ),
        Scenario(
            name="bursts",
            description="6 requests/s for 3 of every 8 minutes, else 2",
            rate=lambda at: 6.0 if at % 480 < 180 else 2.0,
        ),
        Scenario(
            name="diurnal",
            description="a day in an hour, 1 to 6 requests/s",
            duration=3600.0,
            rate=lambda at: 3.5 - 2.5 * math.cos(2 * math.pi * at / 3600),
        ),
        Scenario(
            name="mix shift",
            description="images rise from a tenth to eight tenths of 3 requests/s, and fall again",
            rate=_constant(3.0),
            image_share=_between(600, 1800, inside=0.8, outside=0.1),
        ),
        Scenario(
            name="image step",
            description="2, then 6 requests/s, eight tenths with images",
            rate=_between(600, 9999, inside=6.0, outside=2.0),
            image_share=_constant(0.8),
        ),
        Scenario(
            name="cold starts",
            description="2, then 5 requests/s; pods take 5 and 7 minutes to start",
            rate=_between(600, 9999, inside=5.0, outside=2.0),
            encoder=replace(ENCODER_MODEL, cold_start=300.0),
            pd=replace(PD_MODEL, cold_start=420.0),
        ),
        Scenario(
            name="lost metrics",
            description="2, then 4 requests/s; no metrics from 60 to 460 s after the step",
            rate=_between(600, 9999, inside=4.0, outside=2.0),
            metrics_lost=(660.0, 1060.0),
        ),
        Scenario(
            name="silent pod",
            description="as diurnal; one PD pod serves and gives no metrics",
            duration=3600.0,
            rate=lambda at: 3.5 - 2.5 * math.cos(2 * math.pi * at / 3600),
            silent=PD,
        ),
        Scenario(
            name="lax target",
            description="4 requests/s; the target of PD, 20, is more than twice what a pod can work on",
            rate=_constant(4.0),
            pd=replace(PD_MODEL, target=20),
        ),
    )
}


def scaler(kind: str, scenario: Scenario) -> Scaler:
    """An autoscaler by its name in the report."""
    seconds = int(INTERVAL)
    made: dict[str, Callable[[], Scaler]] = {
        HPA: lambda: HpaScaler(scenario.models),
        OPERATOR: lambda: OperatorScaler(scenario.models),
        WITH_BAND: lambda: OperatorScaler(
            scenario.models, scaling=Scaling(interval_seconds=seconds, encoders_per_pd=BAND)
        ),
        WITH_LEVEL: lambda: OperatorScaler(scenario.models, level=LEVEL),
    }
    return made[kind]()


@cache
def traffic(name: str, seed: int = SEED) -> list[Request]:
    """The requests of a scenario."""
    scenario = SCENARIOS[name]
    return requests(
        seed=seed,
        duration=scenario.duration,
        rate=scenario.rate,
        image_share=scenario.image_share,
        encode_seconds=ENCODE_SECONDS,
        decode_seconds=DECODE_SECONDS,
    )


@cache
def played(name: str, kind: str, seed: int = SEED) -> Result:
    """A scenario under an autoscaler."""
    return play(name, scaler(kind, SCENARIOS[name]), seed=seed)


def play(name: str, chosen: Scaler, *, seed: int = SEED) -> Result:
    """A scenario under a given autoscaler."""
    scenario = SCENARIOS[name]
    return Simulation(
        traffic(name, seed),
        models=scenario.models,
        scaler=chosen,
        seed=seed,
        duration=scenario.duration,
        metrics_lost=scenario.metrics_lost,
        silent=scenario.silent,
    ).run()
