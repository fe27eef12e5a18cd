"""A client of the API server that returns status, body and warnings of every answer."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60
JSON = "application/json"
APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer of the API server.

    Attributes:
        status: HTTP status.
        body: the object, or the Status that says why the request was refused.
        warnings: texts of the Warning headers.
    """

    status: int
    body: dict[str, Any]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the request was granted."""
        return self.status < 300

    @property
    def message(self) -> str:
        """Why the request was refused; empty when it was granted."""
        return "" if self.ok else str(self.body.get("message", self.body))

    @property
    def causes(self) -> list[tuple[str, str]]:
        """Field and message of each cause of a refusal."""
        details = self.body.get("details") or {}
        return [(cause.get("field", ""), cause.get("message", "")) for cause in details.get("causes") or []]


@dataclass(frozen=True, kw_only=True)
class Client:
    """HTTP with a bearer token."""

    url: str
    token: str
    ca_file: Path

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = JSON, accept: str = JSON
    ) -> Answer:
        """Send one request; refusals are answers, not exceptions."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": accept},
        )
        context = ssl.create_default_context(cafile=str(self.ca_file))
        try:
            with urllib.request.urlopen(request, context=context, timeout=TIMEOUT_SECONDS) as response:
                return _answer(response.status, response.read(), response.headers.get_all("Warning") or [])
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.read(), error.headers.get_all("Warning") or [])

    def get(self, path: str) -> Answer:
        """Read."""
        return self.request("GET", path)

    def create(self, path: str, body: dict[str, Any], *, dry_run: bool = False) -> Answer:
        """Create an object below a collection's path, with strict field validation as kubectl asks for."""
        return self.request("POST", f"{path}?fieldValidation=Strict{'&dryRun=All' if dry_run else ''}", body)

    def apply(self, path: str, body: dict[str, Any], *, manager: str = "tests") -> Answer:
        """Server-side apply to an object's path."""
        query = f"?fieldManager={manager}&force=true&fieldValidation=Strict"
        return self.request("PATCH", path + query, body, content_type=APPLY)


def _answer(status: int, content: bytes, warnings: list[str]) -> Answer:
    try:
        body = json.loads(content or b"{}")
    except json.JSONDecodeError:
        body = {"message": content.decode(errors="replace")}
    return Answer(status=status, body=body, warnings=tuple(warnings))
