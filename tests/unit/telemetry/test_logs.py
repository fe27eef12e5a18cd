"""Log lines are JSON, one per record, with the object that they are about."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import kopf
import pytest
from kopf._core.actions.loggers import LocalObjectLogger

from epd_operator.cluster.errors import RefusedError, UnavailableError
from epd_operator.objects.identity import Identity, Key
from epd_operator.objects.kinds import Kind
from epd_operator.plan.status.status_events import Action, EventType, StatusEvent
from epd_operator.reconcile.queue import WorkQueue
from epd_operator.reconcile.reconciler import Reconciler, utc_now
from epd_operator.reconcile.workers import Workers
from epd_operator.telemetry.event_recorder import EventRecorder
from epd_operator.telemetry.logs import MAX_MESSAGE, MAX_TRACEBACK, JsonFormatter, log_context
from epd_operator.telemetry.metrics import Metrics
from support.memory import MemoryCluster
from support.specs import raw_spec

KEY = Key("serving", "qwen")
OBJECT = {"namespace": "serving", "deployment": "qwen"}


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """The output of all loggers."""
    gc.collect()  # objects of earlier tests may log when they are collected
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(before)


def lines(output: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


class LoggingCluster(MemoryCluster):
    """Logs with a logger that has no information about objects, as libraries do."""

    async def list(self, kind: Kind, *, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        logging.getLogger("aiohttp.client").warning("reading %s", kind.plural)
        return await super().list(kind, namespace=namespace, selector=selector)


async def reconcile_all(cluster: MemoryCluster, *keys: Key) -> None:
    """Reconcile the keys with two workers."""
    queue: WorkQueue[Key] = WorkQueue(clock=lambda: 0.0, random=lambda: 0.0)
    workers = Workers(queue=queue, reconciler=Reconciler(cluster), metrics=Metrics(), clock=lambda: 0.0)
    for key in keys:
        queue.add(key)
    await run_until_idle(workers.run(2))


async def run_until_idle(work: Any) -> None:
    task = asyncio.ensure_future(work)
    for _ in range(200):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("failure", [None, UnavailableError("down", request="LIST"), ValueError("a mistake")])
async def test_every_log_line_of_a_reconcile_names_the_object_and_the_reconcile(
    output: io.StringIO, failure: Exception | None
) -> None:
    cluster = LoggingCluster()
    cluster.create(raw_spec("Aggregated"))
    if failure is not None:
        cluster.failures["LIST", "Pod"] = failure  # type: ignore[assignment]
    await reconcile_all(cluster, KEY)
    found = lines(output)
    assert {line["logger"] for line in found} == {"aiohttp.client", "epd_operator.reconcile.workers"}
    assert [line for line in found if not {**OBJECT, "reconcile": 1}.items() <= line.items()] == []


async def test_two_concurrent_reconciles_do_not_mix_their_keys(output: io.StringIO) -> None:
    class Slow(MemoryCluster):
        async def get(self, kind: Kind, *, namespace: str, name: str) -> dict[str, Any] | None:
            for _ in range(3):
                await asyncio.sleep(0)
                logging.getLogger("library").info(name)
            return await super().get(kind, namespace=namespace, name=name)

    await reconcile_all(Slow(), Key("serving", "a"), Key("serving", "b"))
    found = [(line["message"], line["deployment"], line["reconcile"]) for line in lines(output)]
    assert sorted(set(found)) == [("a", "a", 1), ("b", "b", 2)]


async def test_lines_about_events_name_the_object_and_lines_about_the_operator_name_none(output: io.StringIO) -> None:
    class Refusing(MemoryCluster):
        async def create(self, kind: Kind, *, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:  # type: ignore[override]
            raise RefusedError(f"no {kind.plural} in {namespace}, {len(body)}", request="CREATE", status=403)

    recorder = EventRecorder(Refusing(), count=lambda *_: None, reporter="r", clock=lambda: 0.0, now=utc_now)
    event = StatusEvent(type=EventType.NORMAL, reason="Resumed", action=Action.RECONCILE, note="text")
    recorder.record(Identity(name="qwen", namespace="serving", uid="u"), event)
    await run_until_idle(recorder.run())
    with log_context(KEY):
        pass
    logging.getLogger("library").info("of the operator itself")
    about_event, about_nothing = lines(output)
    assert OBJECT.items() <= about_event.items()
    assert OBJECT.keys().isdisjoint(about_nothing)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("EPDDeployment", OBJECT), ("Pod", {"namespace": "serving", "kind": "Pod", "name": "qwen"})],
)
def test_lines_of_kopf_name_the_object(output: io.StringIO, kind: str, expected: dict[str, str]) -> None:
    body = kopf.Body({"kind": kind, "metadata": {"name": "qwen", "namespace": "serving", "uid": "u"}})
    LocalObjectLogger(body=body, settings=kopf.OperatorSettings()).warning("a handler failed")
    (line,) = lines(output)
    assert expected.items() <= line.items()


@pytest.mark.parametrize("text", ["a\nb", "\u2028", '{"level": "error"}', "\x1b[31m", "\ud800", "%s %d", "é" * 100_000])
def test_every_message_is_one_line_of_bounded_length(output: io.StringIO, text: str) -> None:
    logging.getLogger("library").warning("%s", text)
    (raw,) = output.getvalue().encode().splitlines()
    assert json.loads(raw)["message"][:10] == text[:10]
    assert len(json.loads(raw)["message"]) <= MAX_MESSAGE


def test_a_message_that_does_not_fit_its_arguments_is_logged_unformatted() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "%d pods", ("many",), None)
    assert json.loads(JsonFormatter().format(record))["message"] == "%d pods"


def fail() -> None:
    raise ValueError("x" * 100_000 + "the end")


def test_a_traceback_is_one_field_of_bounded_length_that_ends_with_the_error(output: io.StringIO) -> None:
    try:
        fail()
    except ValueError:
        with log_context(KEY):
            logging.getLogger("library").exception("failed")
    (line,) = lines(output)
    assert line["traceback"].endswith("the end")
    assert len(line["traceback"]) <= MAX_TRACEBACK
    assert OBJECT.items() <= line.items()


@pytest.mark.parametrize(
    ("level", "name"),
    [(10, "debug"), (20, "info"), (25, "warning"), (30, "warning"), (40, "error"), (50, "critical"), (99, "critical")],
)
def test_levels_have_one_of_five_names(level: int, name: str) -> None:
    record = logging.LogRecord("x", level, "", 0, "text", None, None)
    assert json.loads(JsonFormatter().format(record))["level"] == name


@pytest.mark.parametrize(
    "code",
    ["raise ValueError('unforeseen')", "import threading; t = threading.Thread(target=int, args=['x']); t.start()"],
)
def test_an_uncaught_error_is_logged_as_json(code: str) -> None:
    program = f"from epd_operator.telemetry.logs import configure_logging\nconfigure_logging('INFO')\n{code}"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    (line,) = (json.loads(line) for line in ran.stderr.splitlines())
    assert line["level"] == "critical"
    assert "ValueError" in line["traceback"]
