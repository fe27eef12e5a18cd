"""The launcher's control port: probes, status, and the drain command.

Anybody who reaches the pod may ask; only a connection from this pod itself may change anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Protocol

from epd_worker.server import Answer, HttpServer, Limits, RefusedError, Request


class Application(Protocol):
    """What the server asks the launcher."""

    def readiness(self, name: str) -> str | None:
        """Return None when the process is ready, else the reason in one line; KeyError for an unknown name."""

    def liveness(self) -> str | None:
        """Return None while the launcher is well, else the reason in one line."""

    def status(self) -> Mapping[str, object]:
        """Return a JSON object for people and the operator."""

    async def drain(self) -> str:
        """Drain once, however often called; return the summary when it is over."""


class ControlServer(HttpServer):
    """Serves an application."""

    def __init__(self, application: Application, *, limits: Limits | None = None) -> None:
        super().__init__(self._route, limits=limits or Limits())
        self._application = application

    async def _route(self, request: Request) -> Answer:
        path = request.path
        if path == "/drain":
            if request.method != "POST":
                raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "/drain takes POST")
            if not request.local:
                raise RefusedError(HTTPStatus.FORBIDDEN, "a drain can be asked for from inside the pod only")
            return Answer.of_text(HTTPStatus.OK, await self._application.drain())
        if request.method not in {"GET", "HEAD"}:
            raise RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is known here")
        if path == "/live":
            return _probe(self._application.liveness(), well="live")
        if path == "/status":
            status = json.dumps(self._application.status(), indent=2)
            return Answer(HTTPStatus.OK, f"{status}\n".encode(), "application/json")
        if path.startswith("/ready/"):
            try:
                return _probe(self._application.readiness(path.removeprefix("/ready/")), well="ready")
            except KeyError:
                raise RefusedError(HTTPStatus.NOT_FOUND, "no process has this name; see /status") from None
        raise RefusedError(HTTPStatus.NOT_FOUND, "known are /ready/<name>, /live, /status and POST /drain")


def _probe(reason: str | None, *, well: str) -> Answer:
    if reason is None:
        return Answer.of_text(HTTPStatus.OK, well)
    return Answer.of_text(HTTPStatus.SERVICE_UNAVAILABLE, reason)
