"""A hypothesis strategy of specs that the API server accepts, with every optional part that policies check."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from support.specs import raw_specs

MEMORY = st.sampled_from(["1Mi", "1.5Gi", "16Gi", "64G", "7000000", "1Pi"])
QUANTITIES = st.sampled_from(["0", "1m", "1.5Gi", "16Gi", "64G", "999Ti", "7", "1Pi"])
ARGS = st.lists(
    st.sampled_from(
        [
            "",
            "=",
            "--max-num-seqs",
            "--max-num-seqs=",
            "--max-num-seqs=12",
            "--max-num-seqs=99999999999999999999",
            "999999999",
            "--revision",
            "--revision=main",
            "--mm-processor-kwargs={}",
            "--reasoning-parser",
            '{"max_new_tokens": 7}',
            "--api-key",
            "é",
        ]
    ),
    max_size=5,
)
ENV = st.lists(
    st.sampled_from(["HF_HOME", "HF_TOKEN", "A_PASSWORD", "A"]).flatmap(
        lambda name: st.sampled_from(
            [
                {"name": name},
                {"name": name, "value": ""},
                {"name": name, "value": "long enough"},
                {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]
        )
    ),
    max_size=2,
    unique_by=lambda variable: variable["name"],
)
LITERAL_ENV = ENV.map(lambda found: [variable for variable in found if "valueFrom" not in variable])
IMAGES = st.sampled_from(["a", "a:latest", "r:5000/a/b-arm64:1", "r/amd64/b@sha256:" + "0" * 64, "[::1]:5000/a:B"])
VOLUMES = st.sampled_from(
    [
        [],
        [{"name": "a"}],
        [{"name": "a", "emptyDir": None}],
        [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}],
        [{"name": "a", "odd": 1, "more": [1], "other": {"deep": {}}}],
    ]
)
RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "requests": st.dictionaries(st.sampled_from(["hugepages-1Gi"]), QUANTITIES, max_size=1),
        "limits": st.dictionaries(st.sampled_from(["memory", "cpu", "hugepages-2Mi"]), QUANTITIES, max_size=3),
    },
)
TRANSPORTS = st.lists(
    st.sampled_from(["rc", "rc_x", "tcp", "all", "self", "sm", "cuda_ipc", "odd"]), min_size=1, max_size=4, unique=True
)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping in which each field may be absent."""
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def autoscalings(draw: st.DrawFn) -> dict[str, Any]:
    """Autoscaling in both modes."""
    low = draw(st.integers(1, 20))
    bounds = {"minReplicas": low, "maxReplicas": draw(st.integers(low, 20))}
    if draw(st.booleans()):
        return {**bounds, "mode": "External"}
    kinds = draw(st.lists(st.sampled_from(["Requests", "KVCacheUsage"]), min_size=1, max_size=2, unique=True))
    return {**bounds, "metrics": [{"type": kind, "targetPerReplica": draw(st.integers(1, 100))} for kind in kinds]}


TEMPLATES = optional(image=IMAGES, volumes=VOLUMES, annotations=st.just({"a": "b"}))
STAGE = optional(
    autoscaling=autoscalings(),
    resources=RESOURCES,
    args=ARGS,
    env=ENV,
    podTemplate=TEMPLATES,
    replicas=st.integers(1, 9),
)
MODELS = st.sampled_from(
    [
        {"name": "Qwen/Qwen3-VL-8B-Instruct"},
        {"name": "a", "storage": {"claimName": "m", "mountPath": "/m/"}},
        {"name": "/m", "storage": {"claimName": "m", "mountPath": "/m"}},
        {"name": "./é"},
    ]
)
SHARED = optional(
    model=MODELS,
    podTemplate=TEMPLATES,
    slo=optional(timeToFirstTokenMilliseconds=st.integers(1, 3600000), interTokenLatencyMilliseconds=st.just(1)),
    scaling=optional(
        metricsSource=st.sampled_from(["Pods", "Prometheus"]),
        gpuBudget=st.integers(1, 100000),
        encodersPerPd=optional(minPercent=st.just(90), maxPercent=st.integers(90, 1000)),
    ),
)


@st.composite
def legal_specs(draw: st.DrawFn) -> dict[str, Any]:
    """Valid specs of all topologies."""
    spec = draw(raw_specs())
    spec.update(draw(SHARED))
    spec["runtime"] = {"image": draw(IMAGES), "args": draw(ARGS), "env": draw(ENV)}
    spec["transfer"] = draw(optional(mode=st.sampled_from(["NixlRead", "NixlWrite"]), rdmaResource=st.just("rdma/ib")))
    local = {"self", "sm", "cuda_ipc"}
    transports = draw(TRANSPORTS)
    if spec["topology"] != "Disaggregated" or not set(transports) <= local:
        spec["transfer"]["ucx"] = {"transports": transports}
    for stage in ("frontend", "worker", "group", "encoder", "pd"):
        if stage in spec:
            spec[stage].update(draw(STAGE))
        if stage in spec and stage != "frontend":
            spec[stage].update(draw(optional(sharedMemory=MEMORY)))
    if "group" in spec:
        spec["group"]["pd"] = draw(optional(args=ARGS, env=LITERAL_ENV))
        spec["group"]["encoder"] = draw(optional(args=ARGS, env=LITERAL_ENV))
    if "encoder" in spec:
        spec["encoder"]["pool"] = draw(st.sampled_from(["rtx", "gb200"]))
    return spec
