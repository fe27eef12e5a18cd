"""Specs for tests: three small ones, and a hypothesis strategy of valid ones."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from epd_operator.api.v1alpha1 import EPDDeploymentSpec

TOPOLOGIES = ("Aggregated", "CoLocated", "Disaggregated")

STAGES: dict[str, dict[str, Any]] = {
    "Aggregated": {"worker": {"pool": "gb200", "replicas": 2}},
    "CoLocated": {"group": {"pool": "gb200", "replicas": 2}},
    "Disaggregated": {"encoder": {"pool": "rtx", "replicas": 2}, "pd": {"pool": "gb200", "replicas": 3}},
}


def raw_spec(topology: str = "Disaggregated", **changes: Any) -> dict[str, Any]:
    """A small valid spec as a user writes it; keyword arguments replace whole fields."""
    return {
        "model": {"name": "Qwen/Qwen3-VL-8B-Instruct", "servedName": "qwen-vl"},
        "runtime": {"image": "example.test/epd:1"},
        "topology": topology,
        "pools": [
            {"name": "gb200", "gpu": {"product": "NVIDIA-GB200", "architecture": "arm64"}},
            {"name": "rtx", "nodeSelector": {"tier": "cheap"}, "tolerations": [{"key": "nvidia.com/gpu"}]},
        ],
        **STAGES[topology],
        **changes,
    }


def spec(topology: str = "Disaggregated", **changes: Any) -> EPDDeploymentSpec:
    """The same, parsed."""
    return EPDDeploymentSpec.model_validate(raw_spec(topology, **changes))


names = st.from_regex(r"[a-z]([-a-z0-9]{0,35}[a-z0-9])?", fullmatch=True)
namespaces = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
_replicas = st.integers(1, 50)
_args = st.lists(st.sampled_from(["--dtype=float32", "--max-model-len", "2048", "--enforce-eager"]), max_size=4)
_env = st.lists(
    st.sampled_from(["OMP_NUM_THREADS", "DYN_LOG", "NCCL_DEBUG"]).map(lambda n: {"name": n, "value": "1"}),
    max_size=3,
    unique_by=lambda e: e["name"],
)
_cache = st.sampled_from([None, "1Gi", "64Gi"])


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item is not None}


@st.composite
def raw_specs(draw: st.DrawFn) -> dict[str, Any]:
    """Valid specs of all topologies."""
    topology = draw(st.sampled_from(TOPOLOGIES))
    common = {"args": draw(_args), "env": draw(_env), "replicas": draw(_replicas)}
    stages: dict[str, Any] = {}
    if topology == "Aggregated":
        gpus = draw(st.integers(1, 8))
        stages["worker"] = {"pool": "rtx", "gpusPerReplica": gpus, "embeddingCache": draw(_cache), **common}
    elif topology == "CoLocated":
        encoder = {"count": draw(st.integers(1, 8)), "memory": draw(st.sampled_from(["4Gi", "512Mi", "1.5G"]))}
        stages["group"] = {"pool": "gb200", "encoder": encoder, "embeddingCache": draw(_cache), **common}
    else:
        stages["encoder"] = {"pool": "rtx", "replicas": draw(_replicas)}
        stages["pd"] = {"pool": "gb200", "gpusPerReplica": draw(st.integers(1, 8)), **common}
    return raw_spec(
        topology,
        **{name: _without_none(stage) for name, stage in stages.items()},
        frontend={
            "replicas": draw(_replicas),
            "routing": draw(st.sampled_from(["RoundRobin", "KV", "LeastLoaded"])),
            "mediaDecoding": draw(st.sampled_from(["Worker", "Frontend"])),
        },
        transfer=_without_none({"rdmaResource": draw(st.sampled_from([None, "rdma/ib"]))}),
        drain={"timeoutSeconds": draw(st.integers(1, 3600))},
    )


specs = raw_specs().map(EPDDeploymentSpec.model_validate)
