"""One EPDDeployment in one cluster: reads and writes, with errors as a user needs them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import typer
from kubernetes.aio import client as kubernetes_client

from epd_operator.cluster.client import Cluster
from epd_operator.cluster.errors import ClusterError, NotFoundError
from epd_operator.objects.identity import DEPLOYMENT_LABEL, controller_uid
from epd_operator.objects.kinds import CONTROLLER_REVISION, EPD_DEPLOYMENT
from epdctl.output import fail
from epdctl.rollout.kubeconfig import Access, find_access
from epdctl.rollout.options import Place

FIELD_MANAGER = "epdctl"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""Names of EPDDeployments and namespaces: DNS labels."""
_Result = TypeVar("_Result")


class CommandError(Exception):
    """The command cannot do what was asked; the message says why. Exit code 1."""


class Session:
    """One object in one cluster."""

    def __init__(self, cluster: Cluster, *, access: Access, name: str) -> None:
        self._cluster = cluster
        self._access = access
        self.name = name
        self.namespace = access.namespace

    async def read(self) -> dict[str, Any]:
        """The object.

        Raises:
            CommandError: it does not exist.
            ClusterError: it cannot be read.
        """
        path = EPD_DEPLOYMENT.path(namespace=self.namespace, name=self.name)
        try:
            return await self._cluster.read(EPD_DEPLOYMENT, path=path)
        except NotFoundError as error:
            if f'"{self.name}"' in error.message:
                raise CommandError(
                    f"there is no EPDDeployment {self.name} in namespace {self.namespace} ({self._access.origin}): "
                    "check the name, --namespace and --context"
                ) from None
            raise CommandError(
                f"the cluster of {self._access.origin} does not serve EPDDeployments: check --context, and whether the "
                "CRDs of epd-operator are installed"
            ) from None

    async def read_records(self, owner: dict[str, Any]) -> list[dict[str, Any]]:
        """The ControllerRevisions of the object, without those of an earlier object of the same name."""
        selector = f"{DEPLOYMENT_LABEL}={self.name}"
        found = await self._cluster.list(CONTROLLER_REVISION, namespace=self.namespace, selector=selector)
        return [child for child in found if controller_uid(child) == owner["metadata"]["uid"]]

    async def replace(self, body: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
        """Replace the object if it still has the resourceVersion of the body."""
        return await self._cluster.replace(EPD_DEPLOYMENT, body=body, field_manager=FIELD_MANAGER, dry_run=dry_run)

    async def merge(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Change only these fields of the spec."""
        place = {"namespace": self.namespace, "name": self.name}
        body = {"spec": spec}
        return await self._cluster.patch(EPD_DEPLOYMENT, **place, body=body, field_manager=FIELD_MANAGER)

    def explain(self, error: ClusterError) -> str:
        """What failed and what to do."""
        origin = self._access.origin
        if error.status == 0:
            return f"the API server of {origin} cannot be reached: {error.message}"
        if error.status == 401:
            return f"the API server of {origin} does not accept the credentials: log in again"
        if error.status == 403:
            return f"not allowed with the credentials of {origin}: {error.message}"
        return f"the API server of {origin} answered: {error.message}"


def in_session(name: str, place: Place, command: Callable[[Session], Awaitable[_Result]]) -> _Result:
    """Run a command; print errors and end the program, without a traceback."""
    try:
        return asyncio.run(_in_session(name, place, command))
    except ValueError as error:
        raise fail(error) from None
    except CommandError as error:
        raise fail(error, code=1) from None


async def _in_session(name: str, place: Place, command: Callable[[Session], Awaitable[_Result]]) -> _Result:
    _require_name(name, what="NAME")
    access = await find_access(place)
    _require_name(access.namespace, what="--namespace")
    try:
        client = kubernetes_client.ApiClient(access.configuration)
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"the certificates or settings of {access.origin} are not usable: {error}") from None
    async with client as api:
        session = Session(Cluster(api), access=access, name=name)
        try:
            return await command(session)
        except ClusterError as error:
            raise CommandError(session.explain(error)) from None


def _require_name(name: str, *, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what}: {name!r} is not a name: use lower case letters, digits and -")


def warn(message: str) -> None:
    """Print a warning to standard error."""
    typer.echo(f"warning: {message}", err=True)
