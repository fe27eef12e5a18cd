"""Client of the API server."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config

from epd_operator.cluster.errors import FencedError, NotFoundError, UnavailableError, error_for
from epd_operator.cluster.warnings import Warnings
from epd_operator.objects.kinds import POD, Kind

PAGE_SIZE = 500
REQUEST_TIMEOUT_SECONDS = 30.0
MAX_CONNECTIONS = 16
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, kw_only=True)
class Request:
    """A finished request.

    Attributes:
        verb: GET, LIST, APPLY, CREATE, REPLACE, PATCH or DELETE.
        kind: kind of the object.
        status: HTTP status, or 0 if there was no answer.
        seconds: duration until the answer was read.
    """

    verb: str
    kind: str
    status: int
    seconds: float


RequestObserver = Callable[[Request], None]
"""Called after every request."""


def _ignore(_request: Request) -> None:
    """Observer that does nothing."""


def _always_allowed() -> bool:
    return True


@asynccontextmanager
async def connect(
    *,
    on_request: RequestObserver = _ignore,
    may_write: Callable[[], bool] = _always_allowed,
    timeout: float = REQUEST_TIMEOUT_SECONDS,  # noqa: ASYNC109 - of each request
) -> AsyncIterator[Cluster]:
    """A connection with the credentials of the pod, or with the kubeconfig if the process runs outside a cluster.

    Args:
        on_request: called after every request.
        may_write: called before every write; if it returns false, the write is not sent.
        timeout: timeout of each request, in seconds.
    """
    configuration = kubernetes_client.Configuration()
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        kubernetes_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        await kubernetes_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration, persist_config=False
        )
    configuration.connection_pool_maxsize = MAX_CONNECTIONS
    async with kubernetes_client.ApiClient(configuration) as api:
        yield Cluster(api, on_request=on_request, may_write=may_write, timeout=timeout)


def own_namespace(file: Path = NAMESPACE_FILE) -> str | None:
    """The namespace of the pod of this process, or None if the process runs outside a cluster."""
    try:
        return file.read_text().strip() or None
    except FileNotFoundError:
        return None


class Cluster:
    """Reads and writes objects as mappings.

    Decoding into the client library's typed models would take 25 times as long.
    """

    def __init__(
        self,
        api: kubernetes_client.ApiClient,
        *,
        on_request: RequestObserver = _ignore,
        may_write: Callable[[], bool] = _always_allowed,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self._api = api
        self._warnings = Warnings()
        self._on_request = on_request
        self._may_write = may_write
        self._timeout = timeout

    async def get(self, kind: Kind, *, namespace: str, name: str) -> dict[str, Any] | None:
        """One object, or None if it does not exist."""
        try:
            return await self._call("GET", kind, path=kind.path(namespace=namespace, name=name))
        except NotFoundError:
            return None

    async def read(self, kind: Kind, *, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Read any path that belongs to the kind, such as discovery documents."""
        return await self._call("GET", kind, path=path, query=query)

    async def list(self, kind: Kind, *, namespace: str | None, selector: str = "") -> list[dict[str, Any]]:
        """All objects that match the label selector, read page by page."""
        found: list[dict[str, Any]] = []
        query = {"limit": str(PAGE_SIZE)} | ({"labelSelector": selector} if selector else {})
        while True:
            page = await self.list_page(kind, namespace=namespace, query=query)
            for item in page.get("items", ()):
                # Managed fields are half of an object, and the operator does not use them in lists.
                item.get("metadata", {}).pop("managedFields", None)
                # The API server omits kind and apiVersion of list items.
                found.append({**item, "kind": kind.kind, "apiVersion": kind.api_version})
            following = page.get("metadata", {}).get("continue")
            if not following:
                return found
            query["continue"] = following

    async def list_page(self, kind: Kind, *, namespace: str | None, query: Mapping[str, str]) -> dict[str, Any]:
        """One answer to a list request, as the API server sends it."""
        return await self._call("LIST", kind, path=kind.path(namespace=namespace), query=query)

    async def apply(
        self,
        kind: Kind,
        *,
        body: Mapping[str, Any],
        field_manager: str,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Server-side apply with force: take ownership of all fields in the body.

        It also removes fields that this field manager applied earlier and that are not in the body.

        Raises:
            ClusterError: the object could not be applied.
        """
        metadata = body["metadata"]
        path = kind.path(namespace=metadata["namespace"], name=metadata["name"], subresource=subresource)
        query = {"force": "true"} | _write_options(field_manager, dry_run=dry_run)
        return await self._call("APPLY", kind, path=path, query=query, body=body)

    async def create(self, kind: Kind, *, namespace: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object. For objects that the operator does not apply, such as Events."""
        return await self._call("CREATE", kind, path=kind.path(namespace=namespace), body=body)

    async def evict(self, *, body: Mapping[str, Any]) -> None:
        """Evict the pod that an Eviction of policy/v1 names.

        Raises:
            UnavailableError: with status 429, the disruption budget does not allow it now.
            ConflictError: the pod has another uid.
        """
        metadata = body["metadata"]
        path = POD.path(namespace=metadata["namespace"], name=metadata["name"], subresource="eviction")
        await self._call("CREATE", POD, path=path, body=body)

    async def replace(
        self, kind: Kind, *, body: Mapping[str, Any], field_manager: str | None = None, dry_run: bool = False
    ) -> dict[str, Any]:
        """Replace the whole object, if it still has the resourceVersion in the body."""
        metadata = body["metadata"]
        path = kind.path(namespace=metadata["namespace"], name=metadata["name"])
        query = _write_options(field_manager, dry_run=dry_run)
        return await self._call("REPLACE", kind, path=path, query=query, body=body)

    async def patch(
        self,
        kind: Kind,
        *,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        subresource: str | None = None,
        field_manager: str | None = None,
    ) -> dict[str, Any]:
        """Change only the fields in the body, with a JSON merge patch. It replaces lists as a whole."""
        path = kind.path(namespace=namespace, name=name, subresource=subresource)
        return await self._call("PATCH", kind, path=path, query=_write_options(field_manager), body=body)

    async def delete(self, kind: Kind, *, namespace: str, name: str, uid: str) -> None:
        """Delete the object with this uid, if it exists. The garbage collector deletes its dependents."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            await self._call("DELETE", kind, path=kind.path(namespace=namespace, name=name), body=body)
        except NotFoundError:
            return

    async def _call(
        self,
        verb: str,
        kind: Kind,
        *,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        request = f"{verb} {path}"
        if verb not in ("GET", "LIST") and not self._may_write():
            raise FencedError("not sent: this replica is not the leader any more", request=request)
        started = time.monotonic()
        status = 0
        try:
            response = await self._send(verb, path=path, query=query, body=body)
            status = response.status
            text = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnavailableError(str(error) or type(error).__name__, request=request) from error
        finally:
            seconds = time.monotonic() - started
            self._on_request(Request(verb=verb, kind=kind.kind, status=status, seconds=seconds))
        self._warnings.log_new(response.headers.getall("Warning", ()), request=request)
        answer = _decode(text, request=request, status=status)
        if status >= 300:
            raise error_for(
                str(answer.get("message") or f"HTTP status {status}"),
                request=request,
                status=status,
                retry_after=_parse_seconds(response.headers.get("Retry-After")),
            )
        return answer

    async def _send(
        self, verb: str, *, path: str, query: Mapping[str, str] | None, body: Mapping[str, Any] | None
    ) -> Any:
        method = {"LIST": "GET", "APPLY": "PATCH", "CREATE": "POST", "REPLACE": "PUT"}.get(verb, verb)
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        content: Mapping[str, Any] | bytes | None = body
        if verb == "APPLY" and body is not None:
            # The client library would encode the body itself, if it did not see a character set.
            headers["Content-Type"] = "application/apply-patch+yaml; charset=utf-8"
            content = _encode_yaml(body)
        elif method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        method, url, headers, _, _ = await self._api.param_serialize(
            method,
            path,
            query_params=list(query.items()) if query else [],
            header_params=headers,
            auth_settings=["BearerToken"],
        )
        return await self._api.call_api(
            method, url, header_params=headers, body=content, _request_timeout=self._timeout
        )


def _write_options(field_manager: str | None, *, dry_run: bool = False) -> dict[str, str]:
    manager = {} if field_manager is None else {"fieldManager": field_manager}
    return manager | ({"dryRun": "All"} if dry_run else {})


_ESCAPED = re.compile("[^\\x20-\\x7e\\U00010000-\\U0010ffff]")
"""Characters that are escaped: those that YAML must not contain are among them."""


def _encode_yaml(body: Mapping[str, Any]) -> bytes:
    r"""JSON that is YAML as well, for server-side apply.

    JSON escapes a character beyond U+FFFF as two surrogates, which YAML refuses, so these characters are not escaped.
    A single surrogate is not a character; it is replaced by U+FFFD.
    """

    def escape(match: re.Match[str]) -> str:
        code = ord(match[0])
        return "\\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"

    return _ESCAPED.sub(escape, json.dumps(body, ensure_ascii=False)).encode()


def _decode(text: bytes, *, request: str, status: int) -> dict[str, Any]:
    """The object in an answer.

    A proxy between the operator and the API server may answer with something else, even with a status of success.
    """
    try:
        answer = json.loads(text, object_hook=_drop_nulls)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    excerpt = text[:200].decode(errors="replace")
    if status < 300:
        raise UnavailableError(f"the answer is not a JSON object: {excerpt!r}", request=request, status=status)
    return {"message": excerpt}


def _drop_nulls(value: dict[str, Any]) -> dict[str, Any]:
    """Remove null values. They mean the same as missing fields, and callers need not handle both."""
    return {key: item for key, item in value.items() if item is not None}


def _parse_seconds(header: str | None) -> float | None:
    return float(header) if header is not None and header.isascii() and header.isdigit() else None
