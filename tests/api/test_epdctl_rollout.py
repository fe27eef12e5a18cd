"""``epdctl rollout`` against a real API server, with records that the operator has written."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from epd_operator.objects.kinds import CONTROLLER_REVISION, DEPLOYMENT, EPD_DEPLOYMENT
from epdctl.app import app
from support.operated import PRIMARIES, World
from support.specs import raw_spec

NEXT_IMAGE = {"image": "example.test/epd:2", "env": [{"name": "HF_TOKEN", "value": "hunter2-hunter2"}]}


async def epdctl(world: World, *arguments: str) -> Result:
    """Run a command in a thread of its own, because it starts an event loop."""
    result = await asyncio.to_thread(CliRunner().invoke, app, ["rollout", *arguments, "-n", world.namespace])
    assert "Traceback" not in result.output
    assert "hunter2" not in result.output
    return result


async def set_spec(world: World, spec: dict[str, Any]) -> None:
    live = await world.find(EPD_DEPLOYMENT, "qwen")
    live["metadata"].pop("managedFields", None)
    answer = world.server.client.request("PUT", f"{PRIMARIES.format(world.namespace)}/qwen", {**live, "spec": spec})
    assert answer.ok, answer.message


async def serve(world: World) -> None:
    """Report all pods of all Deployments as ready, until the operator has nothing to write."""
    for _ in range(3):
        await world.settle()
        for deployment in await world.cluster.list(DEPLOYMENT, namespace=world.namespace):
            await world.report_ready(deployment["metadata"]["name"])
    await world.settle()


async def started_rollout(world: World) -> None:
    """An object that serves its first spec and starts a second revision with another image."""
    world.create(raw_spec("Aggregated", rollout={"revisionHistoryLimit": 5}))
    await serve(world)
    await set_spec(world, raw_spec("Aggregated", runtime=NEXT_IMAGE, rollout={"revisionHistoryLimit": 5}))
    await world.settle()


async def deployments(world: World) -> set[str]:
    return {found["metadata"]["name"] for found in await world.cluster.list(DEPLOYMENT, namespace=world.namespace)}


async def test_an_undo_brings_the_earlier_spec_back_and_the_operator_rolls_back(world: World) -> None:
    await started_rollout(world)
    assert len(await deployments(world)) == 4

    done = await epdctl(world, "undo", "qwen")

    assert done.exit_code == 0, done.output
    assert "runtime.image: example.test/epd:2 -> example.test/epd:1" in done.stdout
    live = await world.find(EPD_DEPLOYMENT, "qwen")
    assert live["spec"]["runtime"]["image"] == "example.test/epd:1"
    assert "env" not in live["spec"]["runtime"]
    assert live["spec"]["rollout"]["revisionHistoryLimit"] == 5
    assert "epdctl" in {manager["manager"] for manager in live["metadata"]["managedFields"]}
    await world.settle()
    assert await deployments(world) == {"qwen-frontend", "qwen-worker"}
    followed = await epdctl(world, "status", "qwen", "--watch")
    assert (followed.exit_code, followed.stdout.splitlines()[-1]) == (0, "the rollout of qwen is complete")
    entries = json.loads((await epdctl(world, "history", "qwen", "-o", "json")).stdout)
    assert [(entry["number"], entry["present"], entry["hasServed"]) for entry in entries] == [
        (2, False, False),
        (3, True, True),
    ]


async def test_a_dry_run_of_an_undo_changes_nothing(world: World) -> None:
    await started_rollout(world)
    before = await world.find(EPD_DEPLOYMENT, "qwen")

    done = await epdctl(world, "undo", "qwen", "--dry-run")

    assert done.stdout.startswith("would set the spec of qwen back to record 1:")
    assert await world.find(EPD_DEPLOYMENT, "qwen") == before


async def test_the_status_and_the_history_of_a_rollout_that_has_started(world: World) -> None:
    await started_rollout(world)

    status = (await epdctl(world, "status", "qwen")).stdout
    history = (await epdctl(world, "history", "qwen")).stdout

    assert "Serving    Aggregated   frontend 1/1, worker 2/2" in status
    assert "Starting   Aggregated" in status
    assert "waits for: " in status
    assert "present, never served" in history
    assert "runtime.image: example.test/epd:1 -> example.test/epd:2" in history
    assert "runtime.env[HF_TOKEN]: added" in history
    assert all(len(line) <= 80 for line in (status + history).splitlines())


async def test_following_a_rollout_ends_with_1_when_the_time_is_over(world: World) -> None:
    await started_rollout(world)

    followed = await epdctl(world, "status", "qwen", "-w", "--timeout", "0.1")

    assert followed.exit_code == 1
    assert "the rollout is not complete after 0.1 s" in followed.stderr


async def test_a_paused_rollout_starts_no_revision_until_it_is_resumed(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await serve(world)
    assert (await epdctl(world, "pause", "qwen")).exit_code == 0
    paused = {**(await world.find(EPD_DEPLOYMENT, "qwen"))["spec"], "runtime": NEXT_IMAGE}
    await set_spec(world, paused)
    await world.settle()
    assert len(await deployments(world)) == 2
    assert (await epdctl(world, "status", "qwen", "-w")).exit_code == 1

    assert (await epdctl(world, "resume", "qwen")).exit_code == 0

    await world.settle()
    assert len(await deployments(world)) == 4
    again = await epdctl(world, "resume", "qwen")
    assert again.stdout.startswith("nothing to change")


async def test_an_undo_without_rights_is_refused_with_the_message_of_the_api_server(
    world: World, tmp_path: Path
) -> None:
    await started_rollout(world)
    config = json.loads(world.server.kubeconfig.read_text())
    config["users"][0]["user"] = {}
    anonymous = tmp_path / "anonymous"
    anonymous.write_text(json.dumps(config))

    refused = await epdctl(world, "undo", "qwen", "--kubeconfig", str(anonymous))

    assert refused.exit_code == 1
    assert 'epddeployments.epd.dev "qwen" is forbidden' in refused.stderr


async def test_an_object_and_a_kind_that_do_not_exist_are_reported_apart(world: World) -> None:
    world.create(raw_spec("Aggregated"))

    assert "there is no EPDDeployment other" in (await epdctl(world, "status", "other")).stderr
    assert "there are no records" in (await epdctl(world, "history", "qwen")).stderr


async def test_an_undo_takes_no_record_of_another_object(world: World) -> None:
    world.create(raw_spec("Aggregated"))
    await world.settle()
    (record,) = await world.cluster.list(CONTROLLER_REVISION, namespace=world.namespace)
    metadata = {"name": "foreign", "labels": record["metadata"]["labels"]}
    path = CONTROLLER_REVISION.path(namespace=world.namespace)
    answer = world.server.client.create(path, {**record, "metadata": metadata, "revision": 7})
    assert answer.ok, answer.message

    assert "there is no earlier spec" in (await epdctl(world, "undo", "qwen")).stderr
