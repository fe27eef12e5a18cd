"""How many requests a frontend has answered, and how many with errors of the server."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.loads.answered import answered_in, read_answered
from epd_operator.loads.targets import Target
from epd_operator.plan.observation import Answered
from unit.loads.servers import answering, serving

PAGES = Path(__file__).parent / "pages"
SERIES = 'dynamo_frontend_requests_total{{endpoint="chat_completions",error_type="{}",model="tiny",status="{}"}} {}\n'


def page(**errors: int) -> bytes:
    text = SERIES.format("", "success", 90)
    return (text + "".join(SERIES.format(kind, "error", number) for kind, number in errors.items())).encode()


def test_real_pages_of_frontends_have_the_numbers() -> None:
    assert answered_in((PAGES / "frontend_later.txt").read_bytes()) == Answered(requests=24)
    assert answered_in((PAGES / "frontend_fresh.txt").read_bytes()) == Answered()


def test_errors_of_the_server_count_as_failed_and_those_of_clients_do_not() -> None:
    errors = {"internal": 1, "overload": 2, "unavailable": 3, "response_timeout": 4}
    others = {"validation": 50, "not_found": 60, "cancelled": 70}
    assert answered_in(page(**errors, **others)) == Answered(requests=280, failed=10)


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"dynamo_frontend_requests_total NaN\n", b"other 1\n"])
def test_a_page_without_valid_numbers_has_none(content: bytes) -> None:
    assert answered_in(content) is None


async def test_frontends_whose_pages_cannot_be_read_are_missing() -> None:
    async with serving(answering(page(internal=1))) as good, serving(answering(b"")) as empty:
        urls = {"good": good.url, "empty": empty.url, "closed": "http://127.0.0.1:1/metrics"}
        targets = [Target(pod=pod, stage=StageName.FRONTEND, ready=True, url=url) for pod, url in urls.items()]
        assert await read_answered(targets) == {"good": Answered(requests=91, failed=1)}
