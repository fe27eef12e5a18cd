"""Errors of the API server, by HTTP status."""

from __future__ import annotations

import pytest

from epd_operator.cluster.errors import (
    ClusterError,
    ConflictError,
    FaultError,
    InvalidError,
    NotFoundError,
    RefusedError,
    TooLargeError,
    UnavailableError,
    error_for,
)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RefusedError),
        (401, RefusedError),
        (403, RefusedError),
        (404, NotFoundError),
        (408, UnavailableError),
        (409, ConflictError),
        (422, InvalidError),
        (429, UnavailableError),
        (500, FaultError),
        (502, UnavailableError),
        (503, UnavailableError),
        (504, UnavailableError),
    ],
)
def test_the_status_decides_the_kind_of_error(status: int, kind: type[ClusterError]) -> None:
    error = error_for("cause", request="GET /x", status=status, retry_after=3.0)
    assert type(error) is kind
    assert (error.message, error.request, error.status, error.retry_after) == ("cause", "GET /x", status, 3.0)
    assert str(error) == "GET /x: cause"


def test_a_replaced_message_replaces_all_of_the_old_one() -> None:
    error = error_for("the token is hunter2", request="APPLY /x", status=403)
    error.reword("the token is [value of TOKEN]")
    assert error.message == "the token is [value of TOKEN]"
    assert "hunter2" not in f"{error} {error!r} {vars(error)}"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (413, "Request entity too large: limit is 3145728"),
        (500, "etcdserver: request is too large"),
        (500, "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2 vs. 1)"),
    ],
)
def test_an_object_that_is_too_large_is_refused_and_not_a_temporary_fault(status: int, message: str) -> None:
    assert type(error_for(message, request="APPLY /x", status=status)) is TooLargeError
