"""CEL rules over the whole spec: what is wrong between fields, each with the way out.

Everything that a rule loops over has a limit (maxItems, maxLength), or the API server's cost estimate refuses the CRD.
"""

from __future__ import annotations

from collections.abc import Iterator

from epd_operator.api.markers import Rule
from epd_operator.api.v1alpha1.topology import GPU_STAGES, StageName

STAGES = tuple(StageName)

LOCAL_TRANSPORTS = (
    "self",
    "sm",
    "shm",
    "posix",
    "sysv",
    "mm",
    "xpmem",
    "cma",
    "knem",
    "cuda",
    "cuda_copy",
    "cuda_ipc",
    "gdr_copy",
)
"""UCX transports that end at the pod's border."""


def _stage_rules() -> Iterator[Rule]:
    home = {stage: topology for topology, stages in GPU_STAGES.items() for stage in stages}
    for topology, stages in GPU_STAGES.items():
        for stage, proper in home.items():
            if stage in stages:
                yield Rule(
                    expression=f"self.topology != '{topology}' || has(self.{stage})",
                    message=f"topology {topology} needs spec.{stage}: add it, or choose another topology",
                    field_path=f".{stage}",
                    reason="FieldValueRequired",
                )
            else:
                yield Rule(
                    expression=f"self.topology != '{topology}' || !has(self.{stage})",
                    message=f"topology {topology} has no stage {stage}: remove spec.{stage}, or set topology to "
                    f"{proper}",
                    field_path=f".{stage}",
                    reason="FieldValueForbidden",
                )


def _pool_rule(stage: str) -> Rule:
    return Rule(
        expression=f"!has(self.{stage}) || self.pools.exists(p, p.name == self.{stage}.pool)",
        message="no pool of this name in spec.pools: add the pool or correct the name",
        field_path=f".{stage}.pool",
    )


def _mount_rules(template: str, *, volumes: tuple[str, ...]) -> Iterator[Rule]:
    """Rules on the mounts of one pod template, given the templates whose volumes its pods have."""
    mounts = f"self.{template}.volumeMounts"
    without = f"!({_has(f'{template}.volumeMounts')})"
    known = " || ".join(
        f"({_has(f'{owner}.volumes')} && self.{owner}.volumes.exists(v, v.name == m.name))" for owner in volumes
    )
    yield Rule(
        expression=f"{without} || {mounts}.all(m, {known})",
        message="a mount names a volume that neither this podTemplate nor spec.podTemplate has: add the volume or "
        "correct the name (volumes of the operator, epd-*, are mounted by the operator)",
        field_path=f".{template}.volumeMounts",
    )
    yield Rule(
        expression=f"{without} || !has(self.model.storage) "
        f"|| !{mounts}.exists(m, m.mountPath == self.model.storage.mountPath)",
        message="model.storage is mounted at this mountPath already: choose another path for one of them",
        field_path=f".{template}.volumeMounts",
    )


def _has(path: str) -> str:
    """A test that every optional field along a path is there."""
    fields = path.split(".")
    return " && ".join(f"has(self.{'.'.join(fields[: end + 1])})" for end in range(len(fields)))


def _token_rule(holder: str) -> Rule:
    return Rule(
        expression=f"!has(self.model.tokenSecret) || !({_has(f'{holder}.env')}) "
        f"|| !self.{holder}.env.exists(e, e.name == 'HF_TOKEN')",
        message="HF_TOKEN comes from model.tokenSecret: remove one of the two",
        field_path=f".{holder}.env",
    )


_LOCAL_ONLY_RULE = Rule(
    expression="self.topology != 'Disaggregated' || "
    f"self.transfer.ucx.transports.exists(t, !(t in {list(LOCAL_TRANSPORTS)}))",
    message="none of these transports leaves a pod, and topology Disaggregated sends embeddings from pod to pod: "
    "add rc (RDMA) or tcp",
    field_path=".transfer.ucx.transports",
)

_GPU_MEMORY_RULE = Rule(
    expression="!has(self.group) || !self.pools.exists(p, p.name == self.group.pool && has(p.gpu.memory) && "
    "quantity(p.gpu.memory).asApproximateFloat() * double(self.group.pd.gpuMemoryPercent) / 100.0 "
    "+ quantity(self.group.encoder.memory).asApproximateFloat() * double(self.group.encoder.count) "
    "> quantity(p.gpu.memory).asApproximateFloat())",
    message="gpuMemoryPercent of the PD process and encoder.count times encoder.memory exceed the memory of the pool's "
    "GPU: lower one of them",
    field_path=".group",
)

SPEC_RULES: tuple[Rule, ...] = (
    *_stage_rules(),
    *(_pool_rule(stage) for stage in STAGES if stage is not StageName.FRONTEND),
    *_mount_rules("podTemplate", volumes=("podTemplate",)),
    *(
        rule
        for stage in STAGES
        for rule in _mount_rules(f"{stage}.podTemplate", volumes=(f"{stage}.podTemplate", "podTemplate"))
    ),
    *(_token_rule(holder) for holder in ("runtime", *STAGES)),
    _LOCAL_ONLY_RULE,
    _GPU_MEMORY_RULE,
)
