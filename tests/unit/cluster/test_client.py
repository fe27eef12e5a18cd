"""Responses of the API server, and of proxies between it and the operator."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from multidict import CIMultiDict

from epd_operator.cluster.client import Cluster, own_namespace
from epd_operator.cluster.errors import ClusterError, FaultError, FencedError, RefusedError, UnavailableError
from epd_operator.objects.kinds import DEPLOYMENT, POD


class FixedResponse:
    """Replaces the Kubernetes client and gives the same response to every request."""

    def __init__(self, body: str, *, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.body = body.encode()
        self.status = status
        self.headers = CIMultiDict(headers)

    async def param_serialize(self, method: str, path: str, **_: Any) -> tuple[str, str, dict[str, str], None, None]:
        return method, path, {}, None, None

    async def call_api(self, *_: Any, **__: Any) -> FixedResponse:
        return self

    async def read(self) -> bytes:
        return self.body


def cluster(body: str, **answer: Any) -> Cluster:
    return Cluster(FixedResponse(body, **answer))  # type: ignore[arg-type]  # has the methods that are used


@pytest.mark.parametrize("body", ["<html>welcome</html>", "", "[]", '"yes"', "[" * 100_000])
async def test_a_successful_response_without_an_object_is_an_outage_and_not_an_empty_list(body: str) -> None:
    with pytest.raises(UnavailableError):
        await cluster(body).list(POD, namespace="n")


@pytest.mark.parametrize(
    ("status", "kind"), [(403, RefusedError), (500, FaultError), (502, UnavailableError), (429, UnavailableError)]
)
async def test_errors_are_classified_by_status_for_any_body(status: int, kind: type[ClusterError]) -> None:
    for body in ("<html>no</html>", "", "[]", '{"message": "no"}'):
        with pytest.raises(kind):
            await cluster(body, status=status).get(DEPLOYMENT, namespace="n", name="d")


async def test_a_fenced_client_still_reads_but_sends_no_write() -> None:
    may_write = [True]
    fenced = Cluster(FixedResponse("{}"), may_write=lambda: may_write[0])  # type: ignore[arg-type]
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


async def test_null_in_a_response_means_absent() -> None:
    pod = {"metadata": {"name": "p", "labels": None}, "status": {"conditions": None, "containerStatuses": None}}
    found = await cluster(json.dumps({"items": [pod], "metadata": None})).list(POD, namespace="n")
    assert found == [{"metadata": {"name": "p"}, "status": {}, "kind": "Pod", "apiVersion": "v1"}]


@pytest.mark.parametrize(("header", "seconds"), [("5", 5.0), ("²", None), ("soon", None), ("", None)])
async def test_retry_after_is_used_only_if_it_is_a_number_of_seconds(header: str, seconds: float | None) -> None:
    with pytest.raises(UnavailableError) as caught:
        await cluster("{}", status=429, headers=[("Retry-After", header)]).get(DEPLOYMENT, namespace="n", name="d")
    assert caught.value.retry_after == seconds


async def test_a_warning_of_the_api_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warnings = [
        ("Warning", '299 - "policy/v1beta1 is \\"deprecated\\""'),
        ("Warning", '299 - "another\x1b[31m"'),
        ("Warning", "what is this"),
    ]
    client = cluster("{}", headers=warnings)
    for _ in range(3):
        await client.get(DEPLOYMENT, namespace="n", name="d")
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        'policy/v1beta1 is "deprecated"',
        "another [31m",
    ]


def test_the_namespace_is_read_from_the_mounted_file_and_is_none_outside_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "namespace").write_text("epd-system\n")
    assert own_namespace(tmp_path / "namespace") == "epd-system"
    assert own_namespace(tmp_path / "missing") is None
