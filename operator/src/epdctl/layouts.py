"""What an EPDDeployment manifest means for the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from epd_operator.advice.simulation.costs import Gpu, Llm
from epd_operator.advice.simulation.known import GPUS, MODELS, known_gpu, known_model
from epd_operator.advice.simulation.layout import Layout
from epd_operator.advice.simulation.results import Slo
from epd_operator.api.v1alpha1.epddeployment import EPDDeployment, EPDDeploymentSpec
from epd_operator.api.v1alpha1.presets import with_preset
from epd_operator.api.v1alpha1.stages import Group, PrefillDecode, Worker
from epd_operator.api.v1alpha1.topology import GPU_STAGES, Topology
from epd_operator.objects.quantities import to_bytes
from epdctl.files import parse
from epdctl.simulation_input import TrafficFile

MAX_RUNNING_FLAG, MAX_TOKENS_FLAG = "--max-num-seqs", "--max-num-batched-tokens"
DEFAULT_MAX_RUNNING, DEFAULT_MAX_TOKENS = 1024, 8192
"""vLLM's own for servers on GPUs with 70 GiB or more: get_batch_defaults in vllm/engine/arg_utils.py."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployment to simulate."""

    name: str
    layout: Layout
    llm: Llm
    slo: Slo


def read_deployment(document: Mapping[str, Any], *, path: str, traffic: TrafficFile) -> Deployment:
    """A manifest.

    Raises:
        ValueError: the manifest is wrong, or a GPU or the model is unknown.
    """
    manifest = parse(EPDDeployment, document, path=path)
    try:
        return Deployment(
            name=str(manifest.metadata.get("name", "deployment")),
            layout=_layout(manifest.spec, traffic=traffic),
            llm=_llm(manifest.spec, traffic=traffic),
            slo=_slo(manifest.spec, traffic=traffic),
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _llm(spec: EPDDeploymentSpec, *, traffic: TrafficFile) -> Llm:
    llm = traffic.model.llm() if traffic.model else known_model(spec.model.name)
    if llm is None:
        raise ValueError(
            f"spec.model.name: {spec.model.name!r} is not one of the known models ({', '.join(MODELS)}): describe it "
            "in the field model of the traffic file"
        )
    return llm


def _slo(spec: EPDDeploymentSpec, *, traffic: TrafficFile) -> Slo:
    objective = traffic.slo or spec.slo
    if objective is None:
        return Slo()
    itl, ttft = objective.inter_token_latency_milliseconds, objective.time_to_first_token_milliseconds
    return Slo(itl=itl / 1000 if itl else None, ttft=ttft / 1000 if ttft else None)


def _gpu(spec: EPDDeploymentSpec, *, stage: str, pool: str, traffic: TrafficFile) -> Gpu:
    number, found = next(((n, one) for n, one in enumerate(spec.pools) if one.name == pool), (0, None))
    if found is None:
        raise ValueError(f"spec.{stage}.pool: there is no pool {pool!r} in spec.pools")
    selected = with_preset(found).gpu
    product = selected.product or next(iter(selected.products or ()), None)
    if product is None:
        raise ValueError(f"spec.pools.{number}.gpu.product: missing: the speed of the GPU depends on it")
    known = known_gpu(product)
    given = next((one for one in traffic.gpus if one.product == product), None)
    gpu = given.gpu(known) if given else known
    if gpu is None:
        raise ValueError(
            f"spec.pools.{number}.gpu.product: {product} is not one of the known GPUs ({', '.join(GPUS)}): set its "
            "compute and memory in the field gpus of the traffic file"
        )
    return gpu


def _layout(spec: EPDDeploymentSpec, *, traffic: TrafficFile) -> Layout:
    topology, worker, group, pd, encoder = spec.topology, spec.worker, spec.group, spec.pd, spec.encoder
    if topology is Topology.AGGREGATED and worker:
        return _base(spec, stage="worker", pd=worker, args=worker.args or [], encoders=0, traffic=traffic)
    if topology is Topology.CO_LOCATED and group:
        args = [*(group.args or []), *(group.pd.args or [])]
        encoders = group.replicas * group.encoder.count
        return _base(spec, stage="group", pd=group, args=args, encoders=encoders, traffic=traffic)
    if topology is Topology.DISAGGREGATED and pd and encoder:
        layout = _base(spec, stage="pd", pd=pd, args=pd.args or [], encoders=encoder.replicas, traffic=traffic)
        return replace(layout, encoder_gpu=_gpu(spec, stage="encoder", pool=encoder.pool, traffic=traffic))
    missing = next(name for name in GPU_STAGES[topology] if getattr(spec, name) is None)
    raise ValueError(f"spec.{missing}: missing: topology {topology} needs it")


def _base(
    spec: EPDDeploymentSpec,
    *,
    stage: str,
    pd: Worker | Group | PrefillDecode,
    args: Sequence[str],
    encoders: int,
    traffic: TrafficFile,
) -> Layout:
    gpu = _gpu(spec, stage=stage, pool=pd.pool, traffic=traffic)
    all_args = [*(spec.runtime.args or []), *args]
    return Layout(
        topology=spec.topology,
        workers=pd.replicas,
        gpu=gpu,
        gpus_per_worker=1 if isinstance(pd, Group) else pd.gpus_per_replica,
        encoders=encoders,
        encoder_gpu=gpu,
        frontends=spec.frontend.replicas,
        frontend_cores=traffic.frontend_cores,
        media_decoding=spec.frontend.media_decoding,
        routing=spec.frontend.routing,
        is_encode_split=_is_encode_split(spec),
        embedding_cache=to_bytes(pd.embedding_cache) if pd.embedding_cache else 0.0,
        transfer_bandwidth=traffic.transfer_gigabits_per_second * 1e9 / 8,
        max_running=_number(all_args, flag=MAX_RUNNING_FLAG, default=DEFAULT_MAX_RUNNING),
        max_tokens=_number(all_args, flag=MAX_TOKENS_FLAG, default=DEFAULT_MAX_TOKENS),
    )


def _is_encode_split(spec: EPDDeploymentSpec) -> bool:
    """Dynamo's default is to spread the images of a request over all encoders; for groups the operator sets 0."""
    stage = spec.group or spec.pd
    variables = [*(spec.runtime.env or []), *((stage.env or []) if stage else [])]
    values = [variable.value for variable in variables if variable.name == "DYN_SPLIT_ENCODE"]
    return values[-1] != "0" if values else spec.group is None


def _number(args: Sequence[str], *, flag: str, default: int) -> int:
    """The value of a flag; the last one counts."""
    found = str(default)
    for position, argument in enumerate(args):
        name, equals, value = argument.partition("=")
        if name == flag:
            found = value if equals else "".join(args[position + 1 : position + 2])
    if not found.isascii() or not found.isdigit() or not int(found[:9]) >= 1 or len(found) > 8:
        raise ValueError(f"{flag}: {found!r} is not a number from 1 to 99999999")
    return int(found)
