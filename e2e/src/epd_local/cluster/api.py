"""A small client of the API server."""

from __future__ import annotations

import http.client
import json
import ssl
from pathlib import Path
from typing import Any

from epd_local.errors import LocalClusterError

MERGE_PATCH = "application/merge-patch+json"
TIMEOUT_SECONDS = 30.0


class ApiError(LocalClusterError):
    """The API server refused a request."""

    def __init__(self, what: str, *, status: int, message: str) -> None:
        """Keep the HTTP status in addition to the message."""
        super().__init__(f"{what}: {status} {message}")
        self.status = status


class ApiClient:
    """A client with the administrator's certificate."""

    def __init__(self, *, host: str, port: int, pki: Path) -> None:
        """Read the certificates, without a request."""
        self._host, self._port = host, port
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def get(self, path: str) -> dict[str, Any]:
        """Return an object or a list."""
        return self._json("GET", path)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Merge *body* into an object."""
        return self._json("PATCH", path, body=body, content_type=MERGE_PATCH)

    def create_if_absent(self, collection: str, body: dict[str, Any]) -> None:
        """Create an object if it does not exist."""
        try:
            self._json("POST", collection, body=body)
        except ApiError as error:
            if error.status != http.client.CONFLICT:
                raise

    def exists(self, path: str) -> bool:
        """Return whether the object exists."""
        try:
            self._json("GET", path)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def is_ready(self) -> bool:
        """Return whether the server reports that it is ready."""
        try:
            status, _ = self._call("GET", "/readyz")
        except (OSError, http.client.HTTPException):
            return False
        return status == http.client.OK

    def _json(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        try:
            status, text = self._call(method, path, body=body, content_type=content_type)
        except (OSError, http.client.HTTPException) as error:
            raise LocalClusterError(f"the API server does not answer ({error}); see `status`") from error
        content: dict[str, Any] = json.loads(text)
        if status >= http.client.BAD_REQUEST:
            raise ApiError(f"{method} {path}", status=status, message=content.get("message", ""))
        return content

    def _call(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=TIMEOUT_SECONDS)
        try:
            payload = json.dumps(body) if body is not None else None
            connection.request(method, path, body=payload, headers={"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
