"""Each stage scales with its own load only, up and down again, without a lost request."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from stories import eventually

from epd_local import load_generator
from epd_local.demo.chat import Endpoint
from epd_local.demo.deployment import Deployment
from epd_local.load_generator import Load, LoadReport

IMAGES = Load(requests=96, concurrency=16, output_tokens=2, image_pixels=512)
"""Pictures keep the encoder busy; two tokens keep PD idle."""
LONG_TEXTS = Load(requests=16, concurrency=16, output_tokens=600)
"""Long answers keep PD busy, and never touch an encoder."""


@pytest.fixture(scope="module")
def deployment(start: Callable[[str], Deployment]) -> Deployment:
    """Encoders and PD workers, one of each, scaled between one and two."""
    return start("autoscaled")


class Observer:
    """Records the largest desired number of pods of each stage."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.most: dict[str, int] = {}

    def observe(self) -> dict[str, int]:
        """Desired number of pods of each stage now."""
        found = (self._deployment.get() or {}).get("status", {}).get("stages", ())
        now = {stage["name"]: int(stage["desired"]) for stage in found}
        self.most = {stage: max(count, self.most.get(stage, 0)) for stage, count in now.items()}
        return now

    def settle(self) -> None:
        """Observe until each stage has one pod."""
        eventually(lambda: set(self.observe().values()) == {1}, what=self.observe)

    def burst(self, endpoint: Endpoint, load: Load, *, folder: Path) -> LoadReport:
        """Send requests, and observe until all are answered."""
        with load_generator.start(endpoint, load, folder=folder) as sending:
            eventually(lambda: self.observe() and sending.poll() is not None, what=lambda: self.most)
        return load_generator.report(folder)


@pytest.mark.parametrize(
    ("load", "scaled", "unchanged"),
    [(IMAGES, "encoder", "pd"), (LONG_TEXTS, "pd", "encoder")],
    ids=["images", "long-texts"],
)
def test_a_burst_scales_only_its_own_stage_up_and_down_without_a_lost_request(
    deployment: Deployment, endpoint: Endpoint, tmp_path: Path, load: Load, scaled: str, unchanged: str
) -> None:
    observer = Observer(deployment)
    observer.settle()
    for number in itertools.count():
        # The number of requests that a burst needs depends on the speed of the machine.
        report = observer.burst(endpoint, load, folder=tmp_path / str(number))
        assert (report.completed, report.errors) == (load.requests, ())
        assert observer.most[unchanged] == 1
        if observer.most[scaled] == 2:
            break
    observer.settle()
    events = deployment.kubectl.items("events.events.k8s.io", "-n", deployment.namespace)
    notes = [e.get("note", "") for e in events if e["regarding"]["kind"] == "EPDDeployment"]
    assert any(note.startswith(f"scaling {scaled} from 1 to 2 replicas") for note in notes), notes
    assert any(note.startswith(f"scaling {scaled} from 2 to 1 replicas") for note in notes), notes
