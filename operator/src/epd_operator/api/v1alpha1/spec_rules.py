"""CEL rules for the whole spec, that is, for combinations of fields.

Every list and text in a rule needs a limit (maxItems, maxLength). Otherwise the API server refuses the CRD, because its
estimate of the cost of the rule is too high.

A new rule here must not refuse objects that an older version accepts. Where a pod template has volumes or an affinity,
the API server cannot tell that spec is unchanged, so it would refuse every write to such an object, also of its status
(tests/api/test_older_objects.py). Such a rule belongs to the denials of the chart (templates/admission/_denials.tpl).
Rules of scalars, and of objects without unknown fields, are evaluated only where they change: https://kep.k8s.io/4008.
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
"""UCX transports that work only inside a pod."""


def _stage_rules() -> Iterator[Rule]:
    topology_of = {stage: topology for topology, stages in GPU_STAGES.items() for stage in stages}
    for topology, stages in GPU_STAGES.items():
        for stage, required_topology in topology_of.items():
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
                    f"{required_topology}",
                    field_path=f".{stage}",
                    reason="FieldValueForbidden",
                )


def _pool_rule(stage: str) -> Rule:
    return Rule(
        expression=f"!has(self.{stage}) || !has(self.{stage}.pool) "
        f"|| self.pools.exists(p, p.name == self.{stage}.pool)",
        message="spec.pools has no pool with this name: add the pool, or correct the name",
        field_path=f".{stage}.pool",
    )


def _mount_rules(template: str, *, volumes: tuple[str, ...]) -> Iterator[Rule]:
    """Rules for the volume mounts of one pod template. `volumes` are the templates with the volumes of its pods."""
    mounts = f"self.{template}.volumeMounts"
    without = f"!({_has(f'{template}.volumeMounts')})"
    known = " || ".join(
        f"({_has(f'{owner}.volumes')} && self.{owner}.volumes.exists(v, v.name == m.name))" for owner in volumes
    )
    yield Rule(
        expression=f"{without} || {mounts}.all(m, {known})",
        message="a volumeMount refers to a volume that is neither in this podTemplate nor in spec.podTemplate: add "
        "the volume, or correct the name (volumes of the operator, epd-*, cannot be used here)",
        field_path=f".{template}.volumeMounts",
    )
    yield Rule(
        expression=f"{without} || !has(self.model.storage) "
        f"|| !{mounts}.exists(m, m.mountPath == self.model.storage.mountPath)",
        message="model.storage is already mounted at this mountPath: choose another path for one of them",
        field_path=f".{template}.volumeMounts",
    )


def _has(path: str) -> str:
    """CEL expression that is true if all fields along the path are set."""
    fields = path.split(".")
    return " && ".join(f"has(self.{'.'.join(fields[: end + 1])})" for end in range(len(fields)))


def _token_rule(holder: str) -> Rule:
    return Rule(
        expression=f"!has(self.model.tokenSecret) || !({_has(f'{holder}.env')}) "
        f"|| !self.{holder}.env.exists(e, e.name == 'HF_TOKEN')",
        message="HF_TOKEN is already set by model.tokenSecret: remove this variable, or remove model.tokenSecret",
        field_path=f".{holder}.env",
    )


_LOCAL_ONLY_RULE = Rule(
    expression="self.topology != 'Disaggregated' || "
    f"self.transfer.ucx.transports.exists(t, !(t in {list(LOCAL_TRANSPORTS)}))",
    message="these transports work only inside a pod, but topology Disaggregated sends embeddings between pods: add "
    "rc (RDMA) or tcp",
    field_path=".transfer.ucx.transports",
)

_DIRECT_RULE = Rule(
    expression="self.frontend.routing != 'Direct' || self.rollout.strategy == 'Recreate'",
    message="with routing Direct every request must name its worker, so the operator cannot ask a new revision before "
    "it gets the requests: set rollout.strategy to Recreate, or choose another routing",
    field_path=".frontend.routing",
)

_GPU_MEMORY_RULE = Rule(
    expression="!has(self.group) || !self.pools.exists(p, p.name == self.group.pool && has(p.gpu.memory) && "
    "isQuantity(p.gpu.memory) && isQuantity(self.group.encoder.memory) && "
    "quantity(p.gpu.memory).asApproximateFloat() * double(self.group.pd.gpuMemoryPercent) / 100.0 "
    "+ quantity(self.group.encoder.memory).asApproximateFloat() * double(self.group.encoder.count) "
    "> quantity(p.gpu.memory).asApproximateFloat())",
    message="the PD process (gpuMemoryPercent) and the encoders (encoder.count times encoder.memory) together "
    "exceed the memory of the pool's GPU: lower one of them",
    field_path=".group",
)

SPEC_RULES: tuple[Rule, ...] = (
    *_stage_rules(),
    *(_pool_rule(stage) for stage in STAGES),
    *_mount_rules("podTemplate", volumes=("podTemplate",)),
    *(
        rule
        for stage in STAGES
        for rule in _mount_rules(f"{stage}.podTemplate", volumes=(f"{stage}.podTemplate", "podTemplate"))
    ),
    *(_token_rule(holder) for holder in ("runtime", *STAGES)),
    _LOCAL_ONLY_RULE,
    _GPU_MEMORY_RULE,
    _DIRECT_RULE,
)
