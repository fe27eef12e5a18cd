"""The stages of each topology: their pods, replicas and pools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeVar

from epd_operator.api.v1alpha1 import EPDDeploymentSpec, Topology
from epd_operator.api.v1alpha1.pools import Pool
from epd_operator.api.v1alpha1.stages import Frontend, GpuSharingStrategy, GpuStage, Group, Stage, TensorParallelStage
from epd_operator.plan.identity import Identity, StageName
from epd_operator.plan.pod import CONTROL_PORT, DRAIN_SETTLE_SECONDS, ContainerPlan, Placement, PodBuilder
from epd_operator.plan.process import (
    HTTP_PORT,
    EngineOptions,
    Process,
    Role,
    engine_command,
    frontend_command,
    pod_environment,
    process_environment,
    user_environment,
)
from epd_operator.plan.quantity import to_bytes

T = TypeVar("T")

_LAUNCHER = ["python3", "-m", "epd_worker"]
MAIN = "main"
"""Container whose identity in Dynamo's discovery is the pod's own."""


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """One stage as it should be."""

    name: StageName
    replicas: int
    pool: str | None
    pod_template: dict[str, Any]


def plan_stages(spec: EPDDeploymentSpec, *, identity: Identity) -> list[StagePlan]:
    """All stages of the topology, in the order in which they may start.

    Raises:
        ValueError: a stage or pool that the topology needs is missing; the API server refuses such objects, so this
            is an object from before a rule.
    """
    stages = [_single(spec, identity=identity, stage=StageName.FRONTEND, role=Role.FRONTEND, settings=spec.frontend)]
    if spec.topology is Topology.AGGREGATED:
        worker = _required(spec.worker, "worker")
        stages.append(_single(spec, identity=identity, stage=StageName.WORKER, role=Role.WORKER, settings=worker))
    elif spec.topology is Topology.CO_LOCATED:
        stages.append(_group(spec, identity=identity, group=_required(spec.group, "group")))
    else:
        encoder, pd = _required(spec.encoder, "encoder"), _required(spec.pd, "pd")
        stages.append(_single(spec, identity=identity, stage=StageName.ENCODER, role=Role.ENCODER, settings=encoder))
        stages.append(_single(spec, identity=identity, stage=StageName.PD, role=Role.PD, settings=pd))
    return stages


def _required(value: T | None, name: str) -> T:
    if value is None:
        raise ValueError(f"spec.{name}: needed by the topology but missing")
    return value


def _pool(spec: EPDDeploymentSpec, *, stage: StageName, name: str) -> Pool:
    for pool in spec.pools:
        if pool.name == name:
            return pool
    raise ValueError(f"spec.{stage}.pool: spec.pools has no pool {name!r}")


def _single(spec: EPDDeploymentSpec, *, identity: Identity, stage: StageName, role: Role, settings: Stage) -> StagePlan:
    """A stage with one process per pod."""
    placement, pool = Placement(), None
    options = EngineOptions(args=tuple(settings.args or ()))
    if isinstance(settings, GpuStage):
        pool = settings.pool
        gpus = settings.gpus_per_replica if isinstance(settings, TensorParallelStage) else 1
        placement = Placement(pool=_pool(spec, stage=stage, name=pool), gpus=gpus, shared_memory=settings.shared_memory)
        cache = settings.embedding_cache if isinstance(settings, TensorParallelStage) else None
        options = EngineOptions(gpus=gpus, embedding_cache=cache, args=options.args)
    command = (
        frontend_command(spec, identity=identity)
        if isinstance(settings, Frontend)
        else engine_command(spec, role=role, options=options)
    )
    process = Process(role=role, container=MAIN, slot=0, command=command)
    own: list[dict[str, object]] = [
        {"name": name, "value": value}
        for name, value in process_environment(spec, role=role, container=MAIN, slot=0).items()
    ]
    container = ContainerPlan(
        name=MAIN,
        command=_run_one(spec, process=process),
        env=[
            *pod_environment(spec, identity=identity),
            *own,
            *user_environment(spec.runtime.env, settings.env),
        ],
        ports=_ports(process),
        owns_devices=True,
        resources=settings.resources,
    )
    builder = PodBuilder(spec, identity=identity, stage=stage, placement=placement, template=settings.pod_template)
    return StagePlan(name=stage, replicas=settings.replicas, pool=pool, pod_template=builder.build([container]))


def _ports(process: Process) -> dict[str, int]:
    ports = {"control": CONTROL_PORT, "system": process.system_port}
    if process.role is Role.FRONTEND:
        ports = {"http": HTTP_PORT, **ports}
    return ports


def _run_one(spec: EPDDeploymentSpec, *, process: Process) -> list[str]:
    return [
        *_LAUNCHER,
        "run",
        *("--name", process.container, "--role", process.role),
        *("--health-url", process.health_url, "--metrics-url", process.metrics_url),
        *(("--models-url", process.models_url) if process.models_url else ()),
        *_drain_options(spec),
        "--",
        *process.command,
    ]


def _drain_options(spec: EPDDeploymentSpec) -> list[str]:
    return [
        *("--control-port", str(CONTROL_PORT)),
        *("--drain-timeout", str(spec.drain.timeout_seconds)),
        *("--settle", str(DRAIN_SETTLE_SECONDS)),
    ]


def _group(spec: EPDDeploymentSpec, *, identity: Identity, group: Group) -> StagePlan:
    """Encoders and a PD process on one GPU.

    Only one container of a pod can own a GPU of the device plugin. So container ``pd`` runs all processes; the others
    lend their names: Dynamo's discovery takes a process for present while the container of its name is ready.
    """
    processes = _group_processes(spec, group=group)
    document = {
        "processes": [
            {
                "name": process.container,
                "role": process.role,
                "command": process.command,
                "env": {str(e["name"]): str(e.get("value", "")) for e in process.env},
                "healthUrl": process.health_url,
                "metricsUrl": process.metrics_url,
            }
            for process in processes
        ],
        "cudaMps": group.gpu_sharing.strategy is GpuSharingStrategy.MPS,
    }
    ports = {"control": CONTROL_PORT}
    ports.update({f"system-{process.slot}": process.system_port for process in processes})
    containers = [
        ContainerPlan(name=process.container, command=[*_LAUNCHER, "stub", "--name", process.container])
        for process in processes
        if process.role is Role.ENCODER
    ]
    containers.append(
        ContainerPlan(
            name=Role.PD,
            command=[*_LAUNCHER, "run-group", *_drain_options(spec)],
            env=[
                *pod_environment(spec, identity=identity),
                *user_environment(spec.runtime.env, group.env),
                {"name": "EPD_GROUP", "value": json.dumps(document, sort_keys=True)},
            ],
            ports=ports,
            owns_devices=True,
            resources=group.resources,
        )
    )
    placement = Placement(
        pool=_pool(spec, stage=StageName.GROUP, name=group.pool), gpus=1, shared_memory=group.shared_memory
    )
    builder = PodBuilder(
        spec, identity=identity, stage=StageName.GROUP, placement=placement, template=group.pod_template
    )
    return StagePlan(
        name=StageName.GROUP, replicas=group.replicas, pool=group.pool, pod_template=builder.build(containers)
    )


def _group_processes(spec: EPDDeploymentSpec, *, group: Group) -> list[Process]:
    """Encoders first: memory of the GPU is taken one after the other, and PD waits for an encoder anyway."""
    common = tuple(group.args or ())
    encoder = EngineOptions(args=common + tuple(group.encoder.args or ()))
    pd = EngineOptions(
        embedding_cache=group.embedding_cache,
        gpu_memory_percent=group.pd.gpu_memory_percent,
        args=common + tuple(group.pd.args or ()),
    )
    roles = [(f"encoder-{i}", Role.ENCODER) for i in range(group.encoder.count)] + [(str(Role.PD), Role.PD)]
    processes = []
    for slot, (name, role) in enumerate(roles):
        env: list[dict[str, object]] = [
            {"name": key, "value": value}
            for key, value in process_environment(spec, role=role, container=name, slot=slot).items()
        ]
        if role is Role.ENCODER:
            env.append({"name": "DYN_VLLM_ENCODER_KV_CACHE_MEMORY_BYTES", "value": str(to_bytes(group.encoder.memory))})
        env += user_environment(group.encoder.env if role is Role.ENCODER else group.pd.env)
        command = engine_command(spec, role=role, options=encoder if role is Role.ENCODER else pd)
        processes.append(Process(role=role, container=name, slot=slot, command=command, env=env))
    return processes
