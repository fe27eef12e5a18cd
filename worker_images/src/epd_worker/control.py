"""The launcher's control port: probes, status, and the drain command.

Every client that can reach the pod can read the state; only a connection from inside the pod can start the drain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

from epd_worker.server import HttpAnswer, HttpError, HttpRequest, HttpServer, ServerLimits


class Application(Protocol):
    """The launcher, as the control server uses it."""

    def readiness(self, name: str) -> str | None:
        """Return None when the process is ready, else the reason in one line; KeyError for an unknown name."""

    def liveness(self) -> str | None:
        """Return None while the launcher works, else the reason in one line."""

    def status(self) -> Mapping[str, object]:
        """Return the state as a JSON object."""

    async def drain(self) -> str:
        """Drain once, for any number of calls; return the summary when the drain has ended."""


class ControlServer(HttpServer):
    """Serves the control port of a launcher."""

    def __init__(self, application: Application, *, limits: ServerLimits | None = None) -> None:
        super().__init__(self._route, limits=limits or ServerLimits())
        self._application = application

    async def _route(self, request: HttpRequest) -> HttpAnswer:
        path = request.path
        if path == "/drain":
            if request.method != "POST":
                raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "/drain accepts only POST")
            if not request.local:
                raise HttpError(HTTPStatus.FORBIDDEN, "a drain can be requested only from inside the pod")
            return HttpAnswer.of_text(HTTPStatus.OK, await self._application.drain())
        if request.method not in {"GET", "HEAD"}:
            raise HttpError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are allowed")
        if path == "/live":
            return _probe(self._application.liveness(), success="live")
        if path == "/status":
            status = json.dumps(self._application.status(), indent=2)
            return HttpAnswer(HTTPStatus.OK, f"{status}\n".encode(), "application/json")
        if path.startswith("/ready/"):
            try:
                return _probe(self._application.readiness(path.removeprefix("/ready/")), success="ready")
            except KeyError:
                raise HttpError(HTTPStatus.NOT_FOUND, "no process has this name; see /status") from None
        raise HttpError(HTTPStatus.NOT_FOUND, "not found; available: /ready/<name>, /live, /status and POST /drain")


def _probe(reason: str | None, *, success: str) -> HttpAnswer:
    if reason is None:
        return HttpAnswer.of_text(HTTPStatus.OK, success)
    return HttpAnswer.of_text(HTTPStatus.SERVICE_UNAVAILABLE, reason)
