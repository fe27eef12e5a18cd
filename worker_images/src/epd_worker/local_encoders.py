"""Runs Dynamo's vLLM worker as a PD process that uses the encoders of its own pod.

``python3 -m epd_worker.local_encoders ARGS…`` takes the arguments of ``python3 -m dynamo.vllm``.

Dynamo sends images to all encoders of its namespace in turn, also to those of other pods. A namespace per pod would not
do: frontends choose between namespaces at random, so neither KV routing nor any other mode would look at more than one
pod (https://github.com/ai-dynamo/dynamo/blob/v1.6.1/lib/llm/src/discovery/model.rs). So this module replaces one
function of Dynamo: the one that returns the client with which a PD process asks encoders.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import ipaddress
import itertools
import os
import runpy
import sys
from collections.abc import Iterator
from typing import Any

ENGINE = "dynamo.vllm"
HOST_VARIABLE = "DYN_TCP_RPC_HOST"
"""Address at which the processes of this pod listen for requests, and with which they register."""
_FACTORY, _CLASS, _METHOD = "dynamo.vllm.worker_factory", "WorkerFactory", "_maybe_get_encode_worker_client"
_POLL_SECONDS = 0.5


class LocalClient:
    """A client of encoders that asks those of this host in turn, and others only while there is none.

    Args:
        client: Dynamo's client, which knows the encoders of all pods.
        host: the address of this pod.
    """

    def __init__(self, client: Any, *, host: str) -> None:
        self._client = client
        self._host = _address(host)
        self._turns: Iterator[int] = itertools.count()
        self._had_local = False

    def instance_ids(self) -> list[int]:
        """The encoders that requests go to."""
        local = self._local()
        if bool(local) != self._had_local:
            self._had_local = bool(local)
            _log("uses the encoders of this pod" if local else "no encoder of this pod is ready: uses those of others")
        return local or sorted(self._client.instance_ids())

    async def wait_for_local(self) -> None:
        """Return when an encoder of this pod is known. The client has no event for that."""
        while not self._local():  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)

    def _local(self) -> list[int]:
        instances = self._client.instances()
        return sorted(each.instance_id for each in instances if _host_of(each.transport.address) == self._host)

    async def round_robin(self, request: Any, **options: Any) -> Any:
        """Send a request to the next encoder."""
        ids = self.instance_ids()
        if not ids:
            return await self._client.round_robin(request, **options)
        return await self._client.direct(request, ids[next(self._turns) % len(ids)], **options)

    def __getattr__(self, name: str) -> Any:
        """Everything else is that of Dynamo's client."""
        return getattr(self._client, name)


def _host_of(address: str) -> str:
    """The host of an address such as ``10.0.0.7:40001/…`` or ``[fd00::7]:40001/…``."""
    authority = address.rpartition("://")[2].partition("/")[0]
    return _address(authority.rpartition(":")[0])


def _address(host: str) -> str:
    """One spelling of an IP address; other names unchanged."""
    bare = host.strip("[]")
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        return bare


def use_local_encoders(factory: type, *, host: str) -> None:
    """Let the factory of workers return clients that prefer the encoders of this host.

    Raises:
        AttributeError: this version of Dynamo has no such function.
    """
    original = getattr(factory, _METHOD)

    @functools.wraps(original)
    async def get_client(self: Any, *arguments: Any, **options: Any) -> Any:
        client = await original(self, *arguments, **options)
        if client is None:
            return None
        local = LocalClient(client, host=host)
        await local.wait_for_local()
        return local

    setattr(factory, _METHOD, get_client)


def _log(text: str) -> None:
    sys.stderr.write(f"epd_worker.local_encoders: {text}\n")


def main() -> None:
    """Replace the function, and run Dynamo's worker with the arguments of this process."""
    host = os.environ.get(HOST_VARIABLE)
    if not host:
        sys.exit(f"epd_worker.local_encoders: {HOST_VARIABLE} is not set: it must be the IP address of the pod")
    try:
        use_local_encoders(getattr(importlib.import_module(_FACTORY), _CLASS), host=host)
    except (ImportError, AttributeError) as error:
        sys.exit(
            f"epd_worker.local_encoders: the Dynamo of this image has no {_FACTORY}.{_CLASS}.{_METHOD} ({error}): use "
            "an image with Dynamo 1.6, or set group.encoder.scope to Deployment"
        )
    runpy.run_module(ENGINE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
