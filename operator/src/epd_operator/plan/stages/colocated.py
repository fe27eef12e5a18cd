"""The co-located stage: several encoders and one PD process share the GPU of a pod."""

from __future__ import annotations

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.pod_template import CACHE_PATH
from epd_operator.api.v1alpha1.stages import EncoderScope, GpuSharingStrategy, Group
from epd_operator.backends.dynamo import Role
from epd_operator.objects.identity import Identity, StageKey
from epd_operator.objects.quantities import to_bytes
from epd_operator.plan.devices.gpu import Placement, mps_limits, pool_named
from epd_operator.plan.devices.transfer import network_of
from epd_operator.plan.pods.launcher import CONTROL_PORT, group_document, run_group_command, stub_command
from epd_operator.plan.pods.process import (
    GROUP_SYSTEM_PORT_NAME,
    EngineOptions,
    Process,
    backend_of,
    engine_command,
    literals,
    pod_environment,
    process_environment,
    user_environment,
)
from epd_operator.plan.pods.template import ContainerPlan, PodBuilder
from epd_operator.plan.stages.stage_plan import StagePlan


def group_stage(spec: EPDDeploymentSpec, *, identity: Identity, stage: StageKey, group: Group) -> StagePlan:
    """Encoders and a PD process on one GPU.

    The device plugin gives a GPU to one container of a pod only. So container ``pd`` runs all processes; the other
    containers only provide the identity (name) of a process: Dynamo's discovery treats a process as present while the
    container of its name is ready.
    """
    processes = _group_processes(spec, group=group)
    network = network_of(spec, stage=group)
    cuda_mps = group.gpu_sharing.strategy is GpuSharingStrategy.MPS
    ports = {"control": CONTROL_PORT}
    ports.update({GROUP_SYSTEM_PORT_NAME.format(slot=process.slot): process.system_port for process in processes})
    containers = [
        ContainerPlan(
            name=process.discovery_name,
            command=stub_command(container=process.discovery_name),
            resources=group.stub_resources,
        )
        for process in processes
        if process.role is Role.ENCODER
    ]
    containers.append(
        ContainerPlan(
            name=Role.PD,
            command=run_group_command(spec),
            env=[
                *pod_environment(spec, identity=identity, revision=stage.revision, network=network),
                *literals(backend_of(spec).group_environment),
                *user_environment(spec.runtime.env, group.env),
                {"name": "EPD_GROUP", "value": group_document(processes, cuda_mps=cuda_mps)},
            ],
            ports=ports,
            owns_devices=True,
            resources=group.resources,
        )
    )
    placement = Placement(
        pool=pool_named(spec, stage=stage.name, name=group.pool),
        gpus=1,
        shared_memory=group.shared_memory,
        network=network,
    )
    builder = PodBuilder(spec, identity=identity, stage=stage, placement=placement, template=group.pod_template)
    return StagePlan(
        key=stage,
        replicas=group.replicas,
        pool=group.pool,
        pod_template=builder.build(containers),
        rollout=group.rollout,
    )


def _group_processes(spec: EPDDeploymentSpec, *, group: Group) -> list[Process]:
    """The processes in start order. Encoders are first: PD waits until it discovers one."""
    common = tuple(group.args or ())
    encoder = EngineOptions(args=common + tuple(group.encoder.args or ()))
    pd = EngineOptions(
        embedding_cache=group.embedding_cache,
        gpu_memory_percent=group.pd.gpu_memory_percent,
        local_encoders=group.encoder.scope is EncoderScope.POD,
        args=common + tuple(group.pd.args or ()),
    )
    roles = [(f"encoder-{i}", Role.ENCODER) for i in range(group.encoder.count)] + [(str(Role.PD), Role.PD)]
    processes = []
    for slot, (name, role) in enumerate(roles):
        env = process_environment(spec, role=role, discovery_name=name, slot=slot)
        env += literals(_caches(spec, group=group, name=name))
        if role is Role.ENCODER:
            env += literals(backend_of(spec).encoder_memory_environment(to_bytes(group.encoder.memory)))
        env += literals(mps_limits(group, role=role))
        env += user_environment(group.encoder.env if role is Role.ENCODER else group.pd.env)
        command = engine_command(spec, role=role, slot=slot, options=encoder if role is Role.ENCODER else pd)
        processes.append(Process(role=role, discovery_name=name, slot=slot, command=command, env=env))
    return processes


def _caches(spec: EPDDeploymentSpec, *, group: Group, name: str) -> dict[str, str]:
    """Folders of one process for compiled kernels, unless the user has set others for all processes."""
    set_by_user = {variable.name for variable in (*(spec.runtime.env or ()), *(group.env or ()))}
    caches = backend_of(spec).process_caches
    return {
        variable: f"{CACHE_PATH}/{name}/{folder}" for variable, folder in caches.items() if variable not in set_by_user
    }
