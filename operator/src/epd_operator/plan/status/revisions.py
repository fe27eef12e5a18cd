"""The status of revisions, and what a rollout from one to the other waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epd_operator.api.v1alpha1.status import RevisionState, RevisionStatus
from epd_operator.objects.identity import StageKey, revision_label
from epd_operator.objects.pods import is_live, name_of
from epd_operator.plan.observation import Observation
from epd_operator.plan.rollout.revisions import Revision, Rollout
from epd_operator.plan.rollout.steps import Phase
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.reasons import Reason
from epd_operator.plan.status.rollout_costs import gpus_text, strategies_text
from epd_operator.plan.status.shares import share_problem
from epd_operator.plan.status.stages import StageProgress, stage_problems
from epd_operator.plan.workloads.progress import progress_of

_MAX_REVISIONS = 16


def revision_statuses(rollout: Rollout, *, progress: Mapping[str, Sequence[StageProgress]]) -> list[RevisionStatus]:
    """The revisions that have stages, that which serves first; ``progress`` is that of their stages, by revision."""
    found = []
    for revision in rollout.revisions:
        stages = progress[revision.name]
        if stages or revision.name == rollout.serving.name:
            found.append(
                RevisionStatus(
                    name=revision_label(revision.name),
                    state=_state(revision, rollout=rollout),
                    topology=revision.spec.topology if revision.spec is not None else None,
                    summary=summary_of(stages),
                )
            )
    return found[:_MAX_REVISIONS]


def summary_of(stages: Sequence[StageProgress]) -> str:
    """Ready and desired pods of each stage."""
    return ", ".join(stage.summary for stage in stages)


def _state(revision: Revision, *, rollout: Rollout) -> RevisionState:
    if revision.name == rollout.serving.name:
        return RevisionState.SERVING
    return RevisionState.STARTING if revision.name == rollout.target.name else RevisionState.LEAVING


def starting_problems(rollout: Rollout, stages: Sequence[StageProgress]) -> list[Problem]:
    """Why the revision that is to serve is not ready yet: the problems of its stages."""
    revision = revision_label(rollout.target.name)
    found = [Problem(p.reason, f"revision {revision}: {p.message}") for p in stage_problems(stages)]
    return [_blocked(rollout, problem) if problem.reason is Reason.UNSCHEDULABLE else problem for problem in found]


def _blocked(rollout: Rollout, problem: Problem) -> Problem:
    """Pods of the new revision find no node while the old one keeps its nodes: what each way out costs."""
    old = revision_label(rollout.serving.name)
    message = f"{problem.message}: revision {old} keeps its GPUs and serves until the new one is ready"
    return Problem(Reason.ROLLOUT_BLOCKED, f"{message}: {strategies_text(rollout)}")


def _cannot_start(rollout: Rollout) -> Problem:
    """The new revision is not started, because it has no GPUs by the settings: which are missing."""
    costs, new, old = rollout.costs, revision_label(rollout.target.name), revision_label(rollout.serving.name)
    if costs is None or not costs.rolling:
        what = "both revisions together would have more GPUs than spec.scaling.gpuBudget"
    else:
        what = f"beside the pods of revision {old} that must remain, {gpus_text(costs.rolling)} are missing"
    message = f"revision {new} does not start, and {old} serves on: {what}: {strategies_text(rollout)}"
    return Problem(Reason.ROLLOUT_BLOCKED, message)


def rollout_problem(rollout: Rollout, *, observation: Observation) -> Problem | None:
    """What the rollout waits for, if all stages are ready; None if nothing is left to do."""
    new, old = revision_label(rollout.target.name), revision_label(rollout.serving.name)
    match rollout.phase:
        case Phase.VERIFYING:
            return _verification_problem(rollout, observation=observation)
        case Phase.SHARING | Phase.RETURNED:
            return share_problem(rollout)
        case Phase.BLOCKED:
            return _cannot_start(rollout)
        case Phase.NONE:
            return _removing(rollout, observation=observation)
        case Phase.PAUSED:
            what = f"the rollout from revision {old} to {new}" if old != new else "the removal of earlier revisions"
            shared = "; the revisions share the traffic as before" if rollout.is_shared else ""
            message = f"{what} is paused: set spec.rollout.paused to false to continue{shared}"
            reason = Reason.ROLLOUT_PAUSED
        case Phase.REMOVING_FIRST:
            message = f"revision {old} is being drained and removed before {new} starts (strategy Recreate)"
            reason = Reason.REVISION_REMOVING
        case Phase.STARTING:
            waits = "" if rollout.target.stages else f" when the Service selects only the frontends of revision {old}"
            reason, message = Reason.REVISION_STARTING, f"revision {new} starts{waits}"
    return Problem(reason, message)


def _verification_problem(rollout: Rollout, *, observation: Observation) -> Problem:
    verdict, new = observation.verdict, revision_label(rollout.target.name)
    if verdict is None or verdict.revision != rollout.target.name:
        message = f"revision {new} is ready; it gets the requests when it has answered a request of the operator"
        return Problem(Reason.REVISION_VERIFYING, message)
    message = f"revision {new} does not get the requests, because it does not answer as expected: {verdict.message}"
    return Problem(Reason.VERIFICATION_FAILED, message)


def wrong_answers(rollout: Rollout, *, observation: Observation) -> Problem | None:
    """Which workers of the revision that serves answer wrongly; None if none is known that still exists."""
    findings, pods = observation.findings, {name_of(pod) for pod in observation.pods if is_live(pod)}
    if findings is None or findings.revision != rollout.serving.name:
        return None
    wrong = {pod: fault for pod, fault in findings.wrong.items() if pod in pods}
    right = [pod for pod in findings.right if pod in pods]
    if not wrong:
        text = f"a worker does not always answer as expected: {findings.doubtful}; an encoder may be the cause"
        return Problem(Reason.WRONG_ANSWERS, text) if findings.doubtful else None
    pod, fault = next(iter(wrong.items()))
    if not right:
        advice = "no worker answers right: the cause may be the model, an encoder or the expectation"
    elif _is_replaced(rollout):
        advice = f"{len(right)} answer right: the operator evicts one such pod in each interval"
    else:
        advice = f"{len(right)} answer right: replace it with kubectl delete pod {pod}"
    workers = f"{len(wrong)} of {len(wrong) + len(right)} workers"
    return Problem(Reason.WRONG_ANSWERS, f"{workers} answer wrongly, for example pod {pod} ({fault}); {advice}")


def _is_replaced(rollout: Rollout) -> bool:
    verification = rollout.serving.spec.verification if rollout.serving.spec is not None else None
    return verification is not None and verification.replace_wrong_workers


def _removing(rollout: Rollout, *, observation: Observation) -> Problem | None:
    if not rollout.others:
        return None
    texts = []
    for revision in rollout.others:
        pods = [f"{s.name} {n}" for s in revision.stages if (n := _pods(s.key, observation=observation))]
        texts.append(f"{revision_label(revision.name)} ({', '.join(pods) or 'no pods left'})")
    return Problem(Reason.REVISION_REMOVING, f"draining and removing earlier revisions: {'; '.join(texts)}")


def _pods(stage: StageKey, *, observation: Observation) -> int:
    return max(len(observation.pods_of(stage)), progress_of(observation.deployment_of(stage)).pods)
