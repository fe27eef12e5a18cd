"""Whether the nodes of the cluster can run the pods of the stages, by what both are: pure, before any pod is created.

It looks at what changes rarely: labels, devices, taints. Free capacity and the state of nodes are left to the
scheduler, whose messages the stages quote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from epd_operator.api.untyped import items, mapping
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.api.v1alpha1.pools import ARCHITECTURE_LABEL
from epd_operator.api.v1alpha1.topology import GPU_STAGES
from epd_operator.objects.digests import digest
from epd_operator.objects.nodes import Node, Nodes, Taint
from epd_operator.objects.pods import is_live
from epd_operator.plan.observation import KubernetesObject, Observation
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.stages.plan_stages import plan_stages
from epd_operator.plan.stages.stage_plan import StagePlan
from epd_operator.plan.status.node_affinity import matches_affinity
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import ConditionType, Reason

MAX_NAMED = 3
"""Maximum number of values or taints that a message names."""
_AUTOSCALED = "If an autoscaler adds such nodes when pods wait for them, no action is needed"


@dataclass(frozen=True, kw_only=True, eq=False)
class PodNeeds:
    """What the pods of one stage need of a node.

    Attributes:
        where: the stage and its pool, for messages.
        selector: labels of the node.
        terms: terms of the required node affinity, of which one must match; None if there is none.
        tolerations: tolerations of the pods, with those that admission has added to live pods.
        devices: extended resources of one pod.
        runtime_class: name of the RuntimeClass; empty if there is none.
        is_admitted: whether live pods exist, so that all tolerations are known.
        key: the same for equal needs.
    """

    where: str
    selector: Mapping[str, str]
    terms: Sequence[Mapping[str, Any]] | None
    tolerations: Sequence[Mapping[str, Any]]
    devices: Mapping[str, int]
    runtime_class: str
    is_admitted: bool
    key: str


def needs_of(spec: EPDDeploymentSpec, *, rollout: Rollout, observation: Observation) -> tuple[PodNeeds, ...]:
    """The needs of all stages of the spec, whether they have started or not."""
    target, stages = rollout.target, list(rollout.target.stages)
    if len(stages) <= len(GPU_STAGES[spec.topology]):
        stages = plan_stages(spec, identity=observation.identity, revision=target.name)
    return tuple(_needs(stage, pods=observation.pods_of(stage.key)) for stage in stages)


def _needs(stage: StagePlan, *, pods: Sequence[KubernetesObject]) -> PodNeeds:
    spec = mapping(stage.pod_template.get("spec"))
    devices: Counter[str] = Counter()
    for container in items(spec.get("containers")):
        limits = mapping(mapping(container.get("resources")).get("limits"))
        devices.update({name: int(amount) for name, amount in limits.items() if "/" in name})
    required = mapping(
        mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get("requiredDuringSchedulingIgnoredDuringExecution")
    )
    live = [mapping(pod.get("spec")) for pod in pods if is_live(pod)]
    admitted = [t for pod in live for t in items(pod.get("tolerations"))]
    facts: dict[str, Any] = {
        "where": f"stage {stage.name}" + (f", pool {stage.pool}" if stage.pool else ""),
        "selector": mapping(spec.get("nodeSelector")),
        "terms": items(required.get("nodeSelectorTerms")) if required else None,
        "tolerations": list({digest(t, length=32): t for t in [*items(spec.get("tolerations")), *admitted]}.values()),
        "devices": devices,
        "runtime_class": str(spec.get("runtimeClassName") or ""),
        "is_admitted": bool(live),
    }
    return PodNeeds(**facts, key=digest(facts, length=32))


def problem_of(needs: PodNeeds, *, nodes: Nodes) -> Problem | None:
    """Why no node can run these pods; None if at least one can."""
    selector, tolerations = dict(needs.selector), list(needs.tolerations)
    if needs.runtime_class:
        runtime = nodes.runtime_classes.get(needs.runtime_class)
        if runtime is None:
            return Problem(
                Reason.RUNTIME_CLASS_MISSING,
                f"{needs.where}: RuntimeClass {needs.runtime_class} does not exist, so the API server refuses the "
                "pods. Create it (the NVIDIA GPU operator creates nvidia), or correct podTemplate.runtimeClassName",
            )
        # Admission adds these to the pods.
        selector |= runtime.selector
        tolerations += runtime.tolerations
    eligible = [node for node in nodes.nodes if matches_affinity(node, needs.terms)]
    matching = [node for node in eligible if _has(node, selector)]
    if not matching:
        return _no_match(needs, selector=selector, eligible=eligible, nodes=nodes.nodes)
    fitting = [node for node in matching if all(node.devices.get(k, 0) >= n for k, n in needs.devices.items())]
    if not fitting:
        return _too_few_devices(needs, matching)
    untolerated = [[t for t in node.taints if not _is_tolerated(t, tolerations, needs=needs)] for node in fitting]
    if all(untolerated):
        taints = _named(str(taint) for found in untolerated for taint in found)
        return Problem(
            Reason.TAINTS_NOT_TOLERATED,
            f"{needs.where}: all nodes that match have taints that the pods do not tolerate: {taints}. Add these to "
            "the tolerations of the pool, or of the frontend",
        )
    return None


def problem_before(status: KubernetesObject) -> Problem | None:
    """The problem in an earlier status; None if there is none."""
    for condition in items(status.get("conditions")):
        reason = next((known for known in Reason if known == condition.get("reason")), None)
        if condition.get("type") == ConditionType.NODES_UNSUITABLE and reason is not None:
            return Problem(reason, str(condition.get("message")))
    return None


def _no_match(
    needs: PodNeeds, *, selector: Mapping[str, str], eligible: Sequence[Node], nodes: Sequence[Node]
) -> Problem:
    """No node matches: name the label that all nodes lack which match otherwise, with what they have instead."""
    wanted = ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
    looked_for = " and ".join(
        [*([f"the labels {wanted}"] if wanted else []), *(["the required node affinity"] if needs.terms else [])]
    )
    text = f"{needs.where}: no node has {looked_for or 'a label at all'}."
    reason, fix = Reason.NO_MATCHING_NODES, "Correct the labels, or label or add nodes"
    if not nodes:
        text = f"{needs.where}: the cluster has no nodes."
        fix = "Add nodes"
    elif not eligible:
        expressions = [e for term in needs.terms or () for e in items(term.get("matchExpressions"))]
        keys = _first(dict.fromkeys(str(e.get("key")) for e in expressions))
        text += f" The nodes have {'; '.join(_values(key, nodes) for key in keys)}." if expressions else ""
        fix = "Correct gpu.products, the preset or podTemplate.affinity, or label or add nodes"
    elif key := _only_mismatch(selector, eligible):
        others = [node for node in eligible if _has(node, {k: v for k, v in selector.items() if k != key})]
        text += f" Nodes that match otherwise have {_values(key, others)}."
        if key == ARCHITECTURE_LABEL:
            reason = Reason.ARCHITECTURE_DIFFERS
            fix = "Correct gpu.architecture (the image must be built for it), or add nodes"
    elif missing := next((k for k, v in sorted(selector.items()) if not any(_has(n, {k: v}) for n in eligible)), ""):
        text += f" None has {missing}={selector[missing]}; the nodes have {_values(missing, eligible)}."
    return Problem(reason, f"{text} {fix}. {_AUTOSCALED}")


def _only_mismatch(selector: Mapping[str, str], nodes: Sequence[Node]) -> str:
    """The label without which nodes would match; empty if there is none."""
    for key in sorted(selector):
        rest = {k: v for k, v in selector.items() if k != key}
        if any(_has(node, rest) for node in nodes):
            return key
    return ""


def _too_few_devices(needs: PodNeeds, nodes: Sequence[Node]) -> Problem:
    most = {name: max(node.devices.get(name, 0) for node in nodes) for name in needs.devices}
    short = sorted(name for name, amount in needs.devices.items() if most[name] < amount)
    if not short:
        wanted = ", ".join(f"{amount} {name}" for name, amount in sorted(needs.devices.items()))
        found = f"no node that matches has all of {wanted} together"
    else:
        name = short[0]
        found = f"one pod needs {needs.devices[name]} {name}, and the nodes that match have "
        found += f"at most {most[name]} each" if most[name] else "none"
    return Problem(
        Reason.DEVICES_MISSING,
        f"{needs.where}: {found}. Check the device plugin and the driver of these nodes (kubectl describe node: "
        "Allocatable), gpu.resourceName, the RDMA resources and gpusPerReplica, or add other nodes",
    )


def _is_tolerated(taint: Taint, tolerations: Iterable[Mapping[str, Any]], *, needs: PodNeeds) -> bool:
    """By the rules of https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/.

    Before pods exist, a taint with the name of a requested device counts as tolerated: the admission plugin
    ExtendedResourceToleration, which GKE uses, adds this toleration.
    """
    if not needs.is_admitted and taint.key in needs.devices:
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") not in (None, "", taint.effect) or toleration.get("key") not in (None, "", taint.key):
        return False
    # Of an operator that is not known here, nothing is claimed.
    return toleration.get("operator") not in (None, "", "Equal") or str(toleration.get("value") or "") == taint.value


def _has(node: Node, selector: Mapping[str, str]) -> bool:
    return all(node.labels.get(key) == value for key, value in selector.items())


def _values(key: str, nodes: Iterable[Node]) -> str:
    """The values that nodes have in a label, the most frequent first."""
    found = Counter(node.labels[key] for node in nodes if key in node.labels)
    return f"{key}={_named(sorted(found, key=lambda value: (-found[value], value)))}" if found else f"no label {key}"


def _named(texts: Iterable[str]) -> str:
    return ", ".join(_first(dict.fromkeys(texts)))


def _first(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if number == MAX_NAMED:
            yield "…"
            return
        yield text
