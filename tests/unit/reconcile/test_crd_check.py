"""When the CRDs are compared with the operator, and what follows from the result; time is virtual."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, RefusedError, UnavailableError
from epd_operator.objects.identity import Key
from epd_operator.reconcile.crd_check import CHECK_SECONDS, UNKNOWN_SECONDS, CrdCheck
from epd_operator.reconcile.queue import WorkQueue
from support.virtual import run_virtually

KIND = {"group": "epd.dev", "version": "v1alpha1", "kind": "EPDStageScale"}
ROOT: dict[str, Any] = {"apiVersion": {}, "kind": {}, "metadata": {}}


def document(**fields: Any) -> dict[str, Any]:
    """An OpenAPI document with one kind of this API."""
    schema = {"x-kubernetes-group-version-kind": [KIND], "properties": {**ROOT, **fields}}
    return {"components": {"schemas": {"other": {}, "scale": schema}}}


OLD = document(spec={"properties": {}}, status={"properties": {"replicas": {}, "selector": {}}})
CURRENT = document(spec={"properties": {"replicas": {}}}, status={"properties": {"replicas": {}, "selector": {}}})


class Answers(Cluster):
    """An API server that gives these answers, one after the other, and the last one for ever."""

    def __init__(self, *answers: dict[str, Any] | ClusterError) -> None:
        self._answers = list(answers)
        self.times: list[float] = []

    async def read(self, *_arguments: Any, **_named: Any) -> dict[str, Any]:
        self.times.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, ClusterError):
            raise answer
        return answer


FORBIDDEN = RefusedError("forbidden", request="GET /openapi", status=403)
BUSY = UnavailableError("busy", request="GET /openapi", status=503)

KEY = Key("serving", "qwen")


def run(
    *answers: dict[str, Any] | ClusterError, seconds: float
) -> tuple[CrdCheck, Answers, list[Mapping[str, int]], int]:
    """Run for some virtual time: the check, its requests, its results, and the number of keys that wait afterwards."""

    async def main() -> tuple[CrdCheck, Answers, list[Mapping[str, int]], int]:
        cluster, results = Answers(*answers), list[Mapping[str, int]]()
        check = CrdCheck(cluster, on_result=results.append)
        queue: WorkQueue[Key] = WorkQueue(clock=asyncio.get_running_loop().time, random=lambda: 0.5)
        task = asyncio.create_task(check.run(queue=queue, known=lambda: [KEY], random=lambda: 0.5))
        await asyncio.sleep(seconds)
        task.cancel()
        return check, cluster, results, len(queue)

    return run_virtually(main())


def test_an_old_crd_is_reported_once_and_all_objects_are_reconciled(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        check, cluster, results, waiting = run(OLD, seconds=CHECK_SECONDS * 2 + 1)
    assert "CRD epdstagescales.epd.dev lacks spec.replicas." in check.problem()
    assert cluster.times == [0, CHECK_SECONDS, CHECK_SECONDS * 2]
    assert results == [{"epdstagescales.epd.dev": 1}] * 3
    assert waiting == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_current_crd_causes_nothing() -> None:
    check, _, results, waiting = run(CURRENT, seconds=1)
    assert (check.problem(), results, waiting) == ("", [{"epdstagescales.epd.dev": 0}], 0)


def test_the_problem_ends_with_the_upgrade_of_the_crd() -> None:
    check, _, results, _ = run(OLD, CURRENT, seconds=CHECK_SECONDS + 1)
    assert check.problem() == ""
    assert results[-1] == {"epdstagescales.epd.dev": 0}


@pytest.mark.parametrize("unknown", [FORBIDDEN, {}, {"components": {"schemas": {"scale": {}}}}, {"components": 7}])
def test_without_a_schema_nothing_is_claimed_and_the_next_check_is_sooner(
    unknown: dict[str, Any] | ClusterError,
) -> None:
    check, cluster, results, waiting = run(unknown, seconds=UNKNOWN_SECONDS + 1)
    assert (check.problem(), results, waiting) == ("", [{}, {}], 0)
    assert cluster.times == [0, UNKNOWN_SECONDS]


def test_a_busy_api_server_does_not_change_the_result() -> None:
    check, cluster, results, _ = run(OLD, BUSY, seconds=CHECK_SECONDS + 1)
    assert len(cluster.times) == 2
    assert check.problem()
    assert len(results) == 1


def test_the_message_names_a_few_fields_and_the_number_of_the_others() -> None:
    empty = {"x-kubernetes-group-version-kind": [{**KIND, "kind": "EPDDeployment"}], "properties": {}}
    check, _, _, _ = run({"components": {"schemas": {"epd": empty}}}, seconds=1)
    assert "lacks apiVersion, kind, metadata, spec, status. " in check.problem()
    spec = {**empty, "properties": {**ROOT, "spec": {"properties": {}}, "status": {}}}
    check, _, _, _ = run({"components": {"schemas": {"epd": spec}}}, seconds=1)
    assert " and 1" in check.problem()
    assert len(check.problem()) < 500
