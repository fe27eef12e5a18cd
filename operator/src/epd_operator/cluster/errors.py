"""What can go wrong at the API server, by what the caller should do about it."""

from __future__ import annotations


class ClusterError(Exception):
    """Any failure of a request to the API server.

    Attributes:
        request: verb and object, for logs.
        status: HTTP status, or 0 where no answer came.
    """

    def __init__(self, message: str, *, request: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(f"{request}: {message}")
        self.message = message
        self.request = request
        self.status = status
        self.retry_after = retry_after

    def reword(self, message: str) -> None:
        """Say it in other words."""
        self.message = message
        self.args = (f"{self.request}: {message}",)


class NotFoundError(ClusterError):
    """The object, or its kind, does not exist."""


class ConflictError(ClusterError):
    """Somebody else wrote first, or owns a field: observe again."""


class RefusedError(ClusterError):
    """The request as it is will not be accepted: invalid, forbidden or refused by admission."""


class InvalidError(RefusedError):
    """The object would be invalid."""


class FaultError(ClusterError):
    """The server failed at this very request: a webhook that it cannot call, a field that it does not know."""


class UnavailableError(ClusterError):
    """The server is busy, down or out of reach: try again later."""


class FencedError(ClusterError):
    """Not sent: another replica may be at work."""


def error_for(message: str, *, request: str, status: int, retry_after: float | None = None) -> ClusterError:
    """The error for an HTTP status."""
    kinds: dict[int, type[ClusterError]] = {404: NotFoundError, 409: ConflictError, 422: InvalidError, 500: FaultError}
    if status in kinds:
        kind = kinds[status]
    elif status in (408, 429) or status >= 500:
        kind = UnavailableError
    else:
        kind = RefusedError
    return kind(message, request=request, status=status, retry_after=retry_after)
