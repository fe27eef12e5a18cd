"""Stages with one process per pod: frontend, worker, encoder and pd."""

from __future__ import annotations

from dataclasses import replace

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.stages import Frontend, GpuStage, Stage, TensorParallelStage
from epd_operator.backends.dynamo import Role
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.plan.devices.gpu import Placement, pool_named
from epd_operator.plan.devices.transfer import network_of
from epd_operator.plan.pods.launcher import CONTROL_PORT, run_command
from epd_operator.plan.pods.process import (
    HTTP_PORT,
    SYSTEM_PORT_NAME,
    EngineOptions,
    Process,
    engine_command,
    frontend_command,
    pod_environment,
    process_environment,
    user_environment,
)
from epd_operator.plan.pods.template import ContainerPlan, PodBuilder
from epd_operator.plan.replicas import gpus_of
from epd_operator.plan.stages.stage_plan import StagePlan

MAIN = "main"
"""Name of the only container."""


def single_process_stage(spec: EPDDeploymentSpec, *, identity: Identity, stage: StageKey, settings: Stage) -> StagePlan:
    """A stage with one process per pod; the process has the role of the stage's name."""
    role = Role(stage.name)
    network, pool = network_of(spec, stage=settings), None
    placement = Placement(network=network)
    options = EngineOptions(args=tuple(settings.args or ()))
    if isinstance(settings, GpuStage):
        pool = settings.pool
        gpus = gpus_of(settings)
        placement = Placement(
            pool=pool_named(spec, stage=stage.name, name=pool),
            gpus=gpus,
            shared_memory=settings.shared_memory,
            network=network,
        )
        options = EngineOptions(gpus=gpus, args=options.args)
        if isinstance(settings, TensorParallelStage):
            options = replace(
                options,
                embedding_cache=settings.embedding_cache,
                gpu_memory_percent=settings.gpu_memory_percent,
            )
    elif isinstance(settings, Frontend):
        placement = Placement(
            pool=pool_named(spec, stage=stage.name, name=settings.pool) if settings.pool is not None else None,
            shared_memory=settings.shared_memory,
            node_selector=settings.node_selector or {},
            tolerations=settings.tolerations or (),
            network=network,
        )
    command = (
        frontend_command(spec, identity=identity, revision=stage.revision)
        if isinstance(settings, Frontend)
        else engine_command(spec, role=role, slot=0, options=options)
    )
    process = Process(role=role, discovery_name=MAIN, slot=0, command=command)
    container = ContainerPlan(
        name=MAIN,
        command=run_command(process, spec=spec),
        env=[
            *pod_environment(spec, identity=identity, revision=stage.revision, network=network),
            *process_environment(spec, role=role, discovery_name=MAIN, slot=0),
            *user_environment(spec.runtime.env, settings.env),
        ],
        ports=_ports(process),
        owns_devices=True,
        resources=settings.resources,
    )
    builder = PodBuilder(spec, identity=identity, stage=stage, placement=placement, template=settings.pod_template)
    return StagePlan(
        key=stage,
        replicas=settings.replicas,
        pool=pool,
        pod_template=builder.build([container]),
        rollout=settings.rollout,
    )


def _ports(process: Process) -> dict[str, int]:
    ports = {"control": CONTROL_PORT, SYSTEM_PORT_NAME: process.system_port}
    if process.role is Role.FRONTEND:
        ports = {"http": HTTP_PORT, **ports}
    return ports
