"""Answers of the API server, and of what may stand between it and the operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from epd_operator.cluster.client import Cluster, own_namespace
from epd_operator.cluster.errors import ClusterError, FaultError, FencedError, RefusedError, UnavailableError
from epd_operator.cluster.warnings import MAX_HEADERS, MAX_KNOWN, Warnings
from epd_operator.objects.kinds import DEPLOYMENT, POD


class Answers:
    """In place of the Kubernetes client: answers every request alike."""

    def __init__(self, body: str, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.body = body.encode()
        self.status = status
        self.headers = CIMultiDict(headers)

    async def param_serialize(self, method: str, path: str, **_: Any) -> tuple[str, str, dict[str, str], None, None]:
        return method, path, {}, None, None

    async def call_api(self, *_: Any, **__: Any) -> Answers:
        return self

    async def read(self) -> bytes:
        return self.body


def cluster(body: str, **answer: Any) -> Cluster:
    return Cluster(Answers(body, **answer))  # type: ignore[arg-type]  # all that is used of it


@pytest.mark.parametrize("body", ["<html>welcome</html>", "", "[]", '"yes"', "[" * 100_000])
async def test_a_success_that_is_no_object_is_an_outage_and_not_an_empty_list(body: str) -> None:
    with pytest.raises(UnavailableError):
        await cluster(body).list(POD, namespace="n")


@pytest.mark.parametrize(
    ("status", "kind"), [(403, RefusedError), (500, FaultError), (502, UnavailableError), (429, UnavailableError)]
)
async def test_errors_are_told_apart_whatever_their_body(status: int, kind: type[ClusterError]) -> None:
    for body in ("<html>no</html>", "", "[]", '{"message": "no"}'):
        with pytest.raises(kind):
            await cluster(body, status=status).get(DEPLOYMENT, namespace="n", name="d")


async def test_what_may_not_write_any_more_still_reads_but_sends_no_write() -> None:
    may_write = [True]
    fenced = Cluster(Answers("{}"), may_write=lambda: may_write[0])  # type: ignore[arg-type]
    pod = {"metadata": {"namespace": "n", "name": "p"}}
    await fenced.apply(POD, body=pod, field_manager="m")
    may_write[0] = False
    await fenced.get(POD, namespace="n", name="p")
    await fenced.list(POD, namespace="n")
    for write in (
        fenced.apply(POD, body=pod, field_manager="m"),
        fenced.create(POD, namespace="n", body=pod),
        fenced.replace(POD, body=pod),
        fenced.patch(POD, namespace="n", name="p", body=pod),
        fenced.delete(POD, namespace="n", name="p", uid="u"),
    ):
        with pytest.raises(FencedError):
            await write


async def test_null_in_an_answer_means_absent() -> None:
    pod = {"metadata": {"name": "p", "labels": None}, "status": {"conditions": None, "containerStatuses": None}}
    found = await cluster(json.dumps({"items": [pod], "metadata": None})).list(POD, namespace="n")
    assert found == [{"metadata": {"name": "p"}, "status": {}, "kind": "Pod", "apiVersion": "v1"}]


@pytest.mark.parametrize(("header", "seconds"), [("5", 5.0), ("²", None), ("soon", None), ("", None)])
async def test_only_a_number_of_seconds_is_a_wait(header: str, seconds: float | None) -> None:
    with pytest.raises(UnavailableError) as caught:
        await cluster("{}", status=429, headers=[("Retry-After", header)]).get(DEPLOYMENT, namespace="n", name="d")
    assert caught.value.retry_after == seconds


async def test_a_warning_of_the_api_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warnings = [
        ("Warning", '299 - "policy/v1beta1 is \\"deprecated\\""'),
        ("Warning", '299 - "another\x1b[31m"'),
        ("Warning", "what is this"),
    ]
    asked = cluster("{}", headers=warnings)
    for _ in range(3):
        await asked.get(DEPLOYMENT, namespace="n", name="d")
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        'policy/v1beta1 is "deprecated"',
        "another [31m",
    ]


def test_any_number_of_warnings_takes_bounded_memory_and_log(caplog: pytest.LogCaptureFixture) -> None:
    warnings = Warnings()
    for number in range(MAX_KNOWN + 10):
        warnings.log_new([f'299 - "{number} {"x" * 10_000}"'], request="GET /")
    assert len(warnings._known) == MAX_KNOWN
    assert max(len(record.getMessage()) for record in caplog.records) < 600
    caplog.clear()
    warnings.log_new([f'299 - "of one answer {number}"' for number in range(1000)], request="GET /")
    assert len(caplog.records) == MAX_HEADERS


def test_a_pod_knows_its_namespace_and_a_process_outside_a_cluster_has_none(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("epd-system\n")
    assert own_namespace(tmp_path / "namespace") == "epd-system"
    assert own_namespace(tmp_path / "missing") is None
