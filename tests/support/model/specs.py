"""The edits of the users of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from support.specs import TOPOLOGIES, raw_spec

STAGES = {"Aggregated": ("worker",), "CoLocated": ("group",), "Disaggregated": ("encoder", "pd")}
TOPOLOGY_OF = {stage: topology for topology, stages in STAGES.items() for stage in stages}


@dataclass(frozen=True, kw_only=True)
class Edit:
    """A spec. Topology and image start a new revision; variables of a stage and replicas do not."""

    topology: str
    image: int = 1
    replicas: tuple[int, int] = (2, 2)
    log: str = "info"
    frontends: int = 1
    strategy: str = "BlueGreen"
    surge: int = 0
    paused: bool = False
    history: int = 10
    steps: tuple[tuple[int, int], ...] = ()

    def spec(self) -> dict[str, Any]:
        """The spec as the user writes it."""
        env = [{"name": "DYN_LOG", "value": self.log}]
        stages = {
            name: {"pool": "gb200", "replicas": replicas, "env": env}
            for name, replicas in zip(STAGES[self.topology], self.replicas, strict=False)
        }
        steps = [{"trafficPercent": percent, "pauseSeconds": seconds} for percent, seconds in self.steps]
        shares = {"steps": steps} if steps and self.strategy == "BlueGreen" else {}
        return raw_spec(
            self.topology,
            runtime={"image": f"example.test/epd:{self.image}"},
            rollout={
                "strategy": self.strategy,
                "maxSurgeGpus": self.surge,
                "paused": self.paused,
                "revisionHistoryLimit": self.history,
                **shares,
            },
            frontend={"replicas": self.frontends},
            **stages,
        )


edits = st.builds(
    Edit,
    topology=st.sampled_from(TOPOLOGIES),
    image=st.integers(1, 2),
    replicas=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    log=st.sampled_from(["info", "debug"]),
    frontends=st.integers(1, 2),
    strategy=st.sampled_from(["BlueGreen", "BlueGreen", "Rolling", "Recreate"]),
    surge=st.integers(0, 3),
    paused=st.sampled_from([False, False, False, True]),
    history=st.sampled_from([10, 1, 0]),
    steps=st.sampled_from([(), ((10, 30),), ((20, 20), (50, 100))]),
)
