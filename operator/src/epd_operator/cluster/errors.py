"""Errors of requests to the API server, grouped by what the caller should do."""

from __future__ import annotations

import re


class ClusterError(Exception):
    """A request to the API server failed.

    Attributes:
        message: cause of the failure.
        request: verb and path of the request, for logs.
        status: HTTP status, or 0 if there was no answer.
        retry_after: seconds to wait before the next request, if the API server asked for a wait.
    """

    def __init__(self, message: str, *, request: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(f"{request}: {message}")
        self.message = message
        self.request = request
        self.status = status
        self.retry_after = retry_after

    def reword(self, message: str) -> None:
        """Replace the message, for example by one without secrets."""
        self.message = message
        self.args = (f"{self.request}: {message}",)


class NotFoundError(ClusterError):
    """The object or its kind does not exist."""


class ConflictError(ClusterError):
    """Another client changed the object first, or owns one of its fields. Read the object again, then retry."""


class RefusedError(ClusterError):
    """The API server does not accept the request: it is invalid, forbidden, or denied by an admission policy."""


class InvalidError(RefusedError):
    """The API server refused the object as invalid."""


class TooLargeError(RefusedError):
    """The object, or the request, is larger than the API server or etcd accepts."""


class FaultError(ClusterError):
    """The API server failed on this request only, for example because of an admission webhook or an unknown field."""


class UnavailableError(ClusterError):
    """The API server is busy, down or unreachable. Retry later."""


class FencedError(ClusterError):
    """The request was not sent, because this replica is not the leader any more."""


_TOO_LARGE = re.compile("request is too large|larger than max|ResourceExhausted")
"""Texts of etcd (limit of an object) and of the client of etcd in the API server (limit of a message), both with HTTP
status 500: https://etcd.io/docs/v3.6/dev-guide/limit/."""


def error_for(message: str, *, request: str, status: int, retry_after: float | None = None) -> ClusterError:
    """The error for an HTTP status."""
    kinds: dict[int, type[ClusterError]] = {404: NotFoundError, 409: ConflictError, 422: InvalidError, 500: FaultError}
    if status == 413 or (status == 500 and _TOO_LARGE.search(message)):
        kind: type[ClusterError] = TooLargeError
    elif status in kinds:
        kind = kinds[status]
    elif status in (408, 429) or status >= 500:
        kind = UnavailableError
    else:
        kind = RefusedError
    return kind(message, request=request, status=status, retry_after=retry_after)
