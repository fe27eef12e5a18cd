"""One reconcile of one EPDDeployment: observe, plan, apply, write the status."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Protocol

import pydantic

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.cluster.apply import apply_plan, write_status
from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError
from epd_operator.cluster.observe import observe, read_primary
from epd_operator.cluster.pod_events import PodEvents
from epd_operator.objects.identity import Identity, Key, StageKey
from epd_operator.objects.pods import is_terminating
from epd_operator.plan.children.child_kind import Settings
from epd_operator.plan.observation import Admitted, ChildKey, Comparison, Findings, Observation, Verdict
from epd_operator.plan.planner import DEFAULTS, make_plan
from epd_operator.plan.redaction import Redactor
from epd_operator.plan.rollout.history import recorded_specs
from epd_operator.plan.rollout.revisions import Rollout
from epd_operator.plan.status.builder import status_of, status_of_invalid
from epd_operator.plan.status.preflight import needs_of, problem_before
from epd_operator.plan.status.problem import Problem
from epd_operator.plan.status.status_events import admission_event, eviction_event
from epd_operator.reconcile.admissions import Admissions
from epd_operator.reconcile.node_check import NodeCheck
from epd_operator.scaling.model import Decision
from epd_operator.telemetry.reports import Report, ReportPort

logger = logging.getLogger(__name__)

GONE = "gone"
"""Outcome of a reconcile that found no object."""
RETRY_REFUSED_SECONDS = 60.0
"""Seconds until the next attempt: changes of quotas, policies and foreign objects cause no event that the operator
watches."""
RETRY_REMOVAL_SECONDS = 2.0
MAX_ERRORS = 10
"""Maximum number of validation errors in one message."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of a reconcile.

    Attributes:
        outcome: one word, for metrics.
        written: descriptions of the objects that were written or deleted, including the status.
        requeue_after: seconds until the next reconcile; set if the expected change causes no event that the operator
            watches.
    """

    outcome: str
    written: tuple[str, ...] = ()
    requeue_after: float | None = None


def utc_now() -> datetime:
    """The current time, for conditions."""
    return datetime.now(tz=UTC)


class ScalingPort(Protocol):
    """The part of the autoscaler that the reconciler uses."""

    def decisions(self, key: Key, *, identity: Identity) -> Mapping[StageKey, Decision]:
        """The last decisions on the stages of an object."""

    def loads(self, key: Key) -> Mapping[str, float]:
        """Last measured number of requests of each pod; pods whose metrics could not be read are missing."""

    def update(
        self, key: Key, *, spec: EPDDeploymentSpec, revision: str, observation: Observation, gpus_beside: int = 0
    ) -> None:
        """Pass on the spec of the revision that serves, the observation, and the GPUs of other revisions."""

    def forget(self, key: Key) -> None:
        """Drop the state of an object that does not exist any more."""


class VerificationPort(Protocol):
    """The part of the verifier that the reconciler uses."""

    def verdict(self, key: Key, *, identity: Identity) -> Verdict | None:
        """The last answer of a new revision."""

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Pass on the revisions, and the observation of a reconcile."""

    def forget(self, key: Key) -> None:
        """Drop the state of an object that does not exist any more."""


class CanaryPort(Protocol):
    """The part of the canary that the reconciler uses."""

    def findings(self, key: Key, *, identity: Identity) -> Findings | None:
        """What the workers of the revision that serves last answered."""

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Pass on the revisions, and the observation of a reconcile."""

    def forget(self, key: Key) -> None:
        """Drop the state of an object that does not exist any more."""


class ComparisonPort(Protocol):
    """The part of the comparer that the reconciler uses."""

    def comparison(self, key: Key, *, identity: Identity) -> Comparison | None:
        """What two revisions that share the traffic have answered."""

    def update(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Pass on the revisions, and the observation of a reconcile."""

    def forget(self, key: Key) -> None:
        """Drop the state of an object that does not exist any more."""


def _no_problem() -> str:
    """The CRDs are not checked."""
    return ""


class Reconciler:
    """Level-triggered: a reconcile depends on the cluster, the last scaling decisions, and what admission has done.

    It keeps only records of the latter, and the last read Events of a few pods, so that they are not read each time.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        settings: Settings = DEFAULTS,
        now: Callable[[], datetime] = utc_now,
        scaling: ScalingPort | None = None,
        verification: VerificationPort | None = None,
        canary: CanaryPort | None = None,
        comparer: ComparisonPort | None = None,
        reports: ReportPort | None = None,
        crd_problem: Callable[[], str] = _no_problem,
        nodes: NodeCheck | None = None,
    ) -> None:
        self._cluster = cluster
        self._pod_events = PodEvents(cluster)
        self._settings = settings
        self._now = now
        self._scaling = scaling
        self._verification = verification
        self._canary = canary
        self._comparer = comparer
        self._reports = reports
        self._crd_problem = crd_problem
        self._nodes = nodes
        self._admissions = Admissions()

    async def reconcile(self, key: Key) -> Result:
        """Reconcile one object once.

        Raises:
            ClusterError: a request to the API server failed; try again later.
        """
        primary = await read_primary(self._cluster, namespace=key.namespace, name=key.name)
        if primary is None or is_terminating(primary):
            # The garbage collector removes the children, whether the operator runs or not.
            self._forget(key)
            return Result(outcome=GONE)
        if self._reports is not None:
            status = primary.get("status") or {}
            self._reports.began(key, generation=int(primary["metadata"].get("generation", 1)), status=status)
        redactor = Redactor.of(primary.get("spec"))
        try:
            return await self._reconcile(key, primary=primary, redactor=redactor)
        except ClusterError as error:
            # Redacted, because the message is logged.
            error.reword(redactor.redact(error.message))
            raise

    async def _reconcile(self, key: Key, *, primary: dict[str, Any], redactor: Redactor) -> Result:
        observation = await observe(self._cluster, primary=primary, now=self._now())
        pod_events, again = await self._pod_events.read(key, observation=observation, now=self._now())
        observation = self._with_memory(key, replace(observation, pod_events=pod_events))
        # Pods of an earlier revision may quote values that only its spec has.
        redactor = Redactor.of([primary.get("spec"), *recorded_specs(observation)])
        observation = redactor.redact_observation(observation)
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            spec = EPDDeploymentSpec.model_validate(primary.get("spec", {}))
            plan = make_plan(spec, observation=observation, settings=self._settings)
        except ValueError as error:
            status = status_of_invalid(redactor.redact(_explain(error)), observation=observation, now=now)
            changed = await self._write_status(key, observation=observation, status=status)
            return Result(outcome="invalid", written=("status",) if changed else ())
        self._pass_on(key, rollout=plan.rollout, observation=observation)
        outcome = await apply_plan(self._cluster, plan=plan, observation=observation)
        self._report_admission(key, identity=observation.identity, found=outcome.admitted)
        self._report_evictions(outcome.evicted, observation=observation)
        plan = plan.without_unchanged(outcome.unchanged)
        refused = {child: redactor.redact(answer) for child, answer in outcome.refused.items()}
        observation = replace(observation, foreign_owners=outcome.foreign_owners, refused=refused)
        nodes = self._check_nodes(key, spec=spec, rollout=plan.rollout, observation=observation)
        status = status_of(spec, plan=plan, observation=observation, now=now, nodes=nodes)
        changed = await self._write_status(key, observation=observation, status=status, model=spec.model.name)
        if outcome.fault is not None:
            raise outcome.fault
        again = min(filter(None, (again, _seconds_to(plan.rollout, now=self._now()))), default=None)
        written = (*outcome.written, "status") if changed else outcome.written
        if any(owner.terminating for owner in outcome.foreign_owners.values()):
            return Result(outcome="waiting", written=written, requeue_after=RETRY_REMOVAL_SECONDS)
        if outcome.foreign_owners or outcome.refused:
            return Result(outcome="refused", written=written, requeue_after=min(again or inf, RETRY_REFUSED_SECONDS))
        return Result(outcome="changed" if written else "settled", written=written, requeue_after=again)

    def _with_memory(self, key: Key, observation: Observation) -> Observation:
        """The observation with what this process remembers: decisions, answers of revisions, what admission does."""
        if self._scaling is not None:
            decisions = self._scaling.decisions(key, identity=observation.identity)
            observation = replace(observation, decisions=decisions, loads=self._scaling.loads(key))
        if self._verification is not None:
            verdict = self._verification.verdict(key, identity=observation.identity)
            observation = replace(observation, verdict=verdict)
        if self._canary is not None:
            findings = self._canary.findings(key, identity=observation.identity)
            observation = replace(observation, findings=findings)
        if self._comparer is not None:
            comparison = self._comparer.comparison(key, identity=observation.identity)
            observation = replace(observation, comparison=comparison)
        return replace(observation, crd_problem=self._crd_problem(), admitted=self._admissions.of(key))

    def _check_nodes(
        self, key: Key, *, spec: EPDDeploymentSpec, rollout: Rollout, observation: Observation
    ) -> Problem | None:
        """Why no node can run the pods of a stage; None if there is no reason, or if nodes are not checked."""
        if self._nodes is None:
            return None
        needs = needs_of(spec, rollout=rollout, observation=observation)
        return self._nodes.problem(key, needs=needs, before=problem_before(observation.status))

    def _pass_on(self, key: Key, *, rollout: Rollout, observation: Observation) -> None:
        """Pass on what the autoscaler, the verifier, the canary and the comparer need."""
        serving = rollout.serving
        if self._scaling is not None and serving.spec is not None:
            self._scaling.update(
                key,
                spec=serving.spec,
                revision=serving.name,
                observation=observation,
                gpus_beside=rollout.gpus_beside,
            )
        if self._verification is not None:
            self._verification.update(key, rollout=rollout, observation=observation)
        if self._canary is not None:
            self._canary.update(key, rollout=rollout, observation=observation)
        if self._comparer is not None:
            self._comparer.update(key, rollout=rollout, observation=observation)

    async def _write_status(
        self, key: Key, *, observation: Observation, status: dict[str, Any], model: str = ""
    ) -> bool:
        """Write the status if it differs, and report it."""
        report = Report(
            identity=observation.identity,
            generation=observation.generation,
            model=model,
            before=observation.status,
            status=status,
        )
        if self._reports is not None:
            self._reports.computed(key, report)
        changed = await write_status(self._cluster, observation=observation, status=status)
        if changed and self._reports is not None:
            self._reports.wrote(key, report)
        return changed

    def _report_admission(self, key: Key, *, identity: Identity, found: Mapping[ChildKey, Admitted | None]) -> None:
        """Remember what admission has made of the applied children, and report what is new."""
        for child, record in self._admissions.learn(key, found).items():
            event = admission_event(child, record)
            logger.info("%s", event.note)
            if self._reports is not None:
                self._reports.noticed(identity, event)

    def _report_evictions(self, pods: Sequence[str], *, observation: Observation) -> None:
        faults = observation.findings.wrong if observation.findings is not None else {}
        for pod in pods:
            event = eviction_event(pod, fault=faults.get(pod, ""))
            logger.warning("%s", event.note)
            if self._reports is not None:
                self._reports.noticed(observation.identity, event)

    def _forget(self, key: Key) -> None:
        self._pod_events.forget(key)
        self._admissions.forget(key)
        if self._verification is not None:
            self._verification.forget(key)
        if self._canary is not None:
            self._canary.forget(key)
        if self._nodes is not None:
            self._nodes.forget(key)
        if self._comparer is not None:
            self._comparer.forget(key)
        if self._scaling is not None:
            self._scaling.forget(key)
        if self._reports is not None:
            self._reports.gone(key)


def _seconds_to(rollout: Rollout, *, now: datetime) -> float | None:
    """Seconds until a step of a share is over, at least one; None if none is under way."""
    ends = rollout.share.ends if rollout.share is not None else None
    return None if ends is None else max(1.0, (ends - now).total_seconds())


def _explain(error: ValueError) -> str:
    """The fields and causes of an invalid spec, without the values, which may be secrets."""
    if not isinstance(error, pydantic.ValidationError):
        return str(error)
    return "; ".join(
        f"spec.{'.'.join(str(part) for part in cause['loc'])}: {cause['msg']}"
        for cause in error.errors(include_input=False, include_url=False)[:MAX_ERRORS]
    )
