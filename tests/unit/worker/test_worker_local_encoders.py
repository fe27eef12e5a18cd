"""A PD process of a group uses the encoders of its own pod."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from epd_worker import local_encoders
from epd_worker.local_encoders import LocalClient, use_local_encoders

OWN = "10.0.0.7"
OTHER = "10.0.0.8"


@dataclass(frozen=True)
class Transport:
    address: str


@dataclass(frozen=True)
class Instance:
    instance_id: int
    transport: Transport


@dataclass
class DynamoClient:
    """What Dynamo's client of an endpoint offers: dynamo/_core.pyi."""

    known: list[Instance]
    sent: Counter[int | None] = field(default_factory=Counter)

    def instances(self) -> list[Instance]:
        return self.known

    def instance_ids(self) -> list[int]:
        return [each.instance_id for each in self.known]

    async def direct(self, _request: Any, instance_id: int, **_: Any) -> None:
        self.sent[instance_id] += 1

    async def round_robin(self, _request: Any, **_: Any) -> None:
        self.sent[None] += 1


def instance(number: int, host: str) -> Instance:
    return Instance(number, Transport(f"{host}:40001/{number:x}/generate"))


async def ask(client: LocalClient, times: int) -> None:
    for _ in range(times):
        await client.round_robin("image", context=None)


async def test_images_go_to_the_encoders_of_the_pod_in_turn() -> None:
    dynamo = DynamoClient([instance(number, OWN if number < 2 else OTHER) for number in range(8)])
    client = LocalClient(dynamo, host=OWN)
    await ask(client, 100)
    assert dynamo.sent == {0: 50, 1: 50}
    assert client.instance_ids() == [0, 1]


async def test_without_an_encoder_of_the_pod_those_of_others_are_asked_until_it_is_back(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dynamo = DynamoClient([instance(3, OTHER), instance(4, OTHER)])
    client = LocalClient(dynamo, host=OWN)
    await ask(client, 4)
    assert dynamo.sent == {3: 2, 4: 2}
    dynamo.known.append(instance(0, OWN))
    await ask(client, 4)
    assert dynamo.sent[0] == 4
    dynamo.known.pop()
    await ask(client, 2)
    assert dynamo.sent[0] == 4
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "uses the encoders of this pod",
        "uses those of others",
    ]


async def test_without_any_encoder_dynamo_answers() -> None:
    dynamo = DynamoClient([])
    await ask(LocalClient(dynamo, host=OWN), 1)
    assert dynamo.sent == {None: 1}


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.0.0.7", "10.0.0.7:40001/1/generate"),
        ("10.0.0.7", "tcp://10.0.0.7:40001"),
        ("fd00:10::2", "[fd00:10::2]:40001/1/generate"),
        ("fd00:10::2", "[fd00:10:0:0:0:0:0:2]:40001"),
        ("[fd00:10::2]", "[fd00:10::2]:40001"),
    ],
)
def test_an_address_of_the_pod_is_recognised_in_every_spelling(host: str, address: str) -> None:
    dynamo = DynamoClient([Instance(5, Transport(address)), instance(6, OTHER)])
    assert LocalClient(dynamo, host=host).instance_ids() == [5]


async def test_a_pd_process_starts_when_an_encoder_of_its_own_pod_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamo = DynamoClient([instance(3, OTHER)])

    class Factory:
        async def _maybe_get_encode_worker_client(self, _runtime: Any, config: Any) -> Any:
            return dynamo if config else None

    waits = 0

    async def sleep(_: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            dynamo.known.append(instance(0, OWN))

    monkeypatch.setattr(asyncio, "sleep", sleep)
    use_local_encoders(Factory, host=OWN)
    client = await Factory()._maybe_get_encode_worker_client(None, "PD")
    assert waits == 3
    assert client.instance_ids() == [0]
    assert client.known is dynamo.known
    assert await Factory()._maybe_get_encode_worker_client(None, None) is None


@pytest.mark.parametrize(
    ("host", "message"), [("", "DYN_TCP_RPC_HOST is not set"), (OWN, "set group.encoder.scope to Deployment")]
)
def test_without_address_or_with_another_dynamo_it_ends_and_says_what_to_do(host: str, message: str) -> None:
    environment = {**os.environ, local_encoders.HOST_VARIABLE: host}
    command = [sys.executable, "-m", "epd_worker.local_encoders", "--model", "m"]
    found = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert found.returncode == 1
    assert message in found.stderr
