"""Each stage grows with its own load alone and comes back, and no request is lost on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from stories import PATIENCE

from epd_local import load_generator
from epd_local.demo.chat import Endpoint
from epd_local.demo.deployment import Deployment
from epd_local.load_generator import Load

IMAGES = Load(requests=160, concurrency=16, output_tokens=2, image_pixels=512)
"""Pictures keep the encoder busy; two tokens keep PD idle."""
LONG_TEXTS = Load(requests=32, concurrency=16, output_tokens=1200)
"""Long answers keep PD busy, and never touch an encoder."""


@pytest.fixture(scope="module")
def deployment(start: Callable[[str], Deployment]) -> Deployment:
    """Encoders and PD workers, one of each, scaled between one and two."""
    return start("autoscaled")


class Observer:
    """Remembers the largest number of pods asked for, by stage, while something goes on."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.most: dict[str, int] = {}

    def look(self) -> dict[str, int]:
        """Pods asked for now, by stage."""
        found = (self._deployment.get() or {}).get("status", {}).get("stages", ())
        now = {stage["name"]: int(stage["desired"]) for stage in found}
        self.most = {stage: max(count, self.most.get(stage, 0)) for stage, count in now.items()}
        return now

    def watch_until(self, ended: Callable[[], bool]) -> None:
        """Look again and again until something has ended."""
        deadline = time.monotonic() + PATIENCE
        while not ended():
            assert time.monotonic() < deadline, f"it has not ended; most pods so far: {self.most}"
            self.look()
            time.sleep(1)


@pytest.mark.parametrize(
    ("load", "grows", "rests"), [(IMAGES, "encoder", "pd"), (LONG_TEXTS, "pd", "encoder")], ids=["images", "long-texts"]
)
def test_a_burst_grows_its_own_stage_alone_and_both_come_back_without_a_lost_request(
    deployment: Deployment, endpoint: Endpoint, tmp_path: Path, load: Load, grows: str, rests: str
) -> None:
    observer = Observer(deployment)
    observer.watch_until(lambda: observer.look() == {"frontend": 1, "encoder": 1, "pd": 1})
    with load_generator.start(endpoint, load, folder=tmp_path) as burst:
        observer.watch_until(lambda: burst.poll() is not None)
    assert observer.most[grows] == 2
    assert observer.most[rests] == 1
    told = load_generator.report(tmp_path)
    assert (told.completed, told.errors) == (load.requests, ())
    observer.watch_until(lambda: observer.look() == {"frontend": 1, "encoder": 1, "pd": 1})
    events = deployment.kubectl.items("events.events.k8s.io", "-n", deployment.namespace)
    notes = [e.get("note", "") for e in events if e["regarding"]["kind"] == "EPDDeployment"]
    assert any(note.startswith(f"scaling {grows} from 1 to 2 replicas") for note in notes), notes
    assert any(note.startswith(f"scaling {grows} from 2 to 1 replicas") for note in notes), notes
