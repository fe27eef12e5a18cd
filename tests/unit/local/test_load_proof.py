"""What the proof under load counts as an answer, and what it computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from epd_local.load_proof.requests import Kind, Request, answer_fault, stream_fault
from epd_local.load_proof.results import Result, count, longest_gap, merge, table, was_in_flight
from epd_local.load_proof.scenarios import SCENARIOS, TWO_PD
from epd_local.locations import REPOSITORY


def _answer(text: str | None) -> dict[str, object]:
    return {"choices": [{"message": {"content": text}}]}


def test_a_picture_needs_the_right_answer_and_a_text_needs_any():
    assert answer_fault(_answer(" red circle "), expected="red circle") == ""
    assert answer_fault(_answer("blue circle"), expected="red circle") == (
        "answered 'blue circle' instead of 'red circle'"
    )
    assert answer_fault(_answer("hello"), expected="") == ""
    assert answer_fault(_answer(None), expected="") == "answered '' instead of 'some text'"


def _stream(*events: object) -> str:
    return "".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events)


CHUNK = {"choices": [{"delta": {"content": "a"}}]}
USAGE = {"choices": [], "usage": {"completion_tokens": 3}}


@pytest.mark.parametrize(
    ("stream", "fault"),
    [
        (_stream(CHUNK, USAGE, "[DONE]"), ""),
        (_stream(CHUNK, USAGE), "without [DONE]"),
        ("", "without [DONE]"),
        (_stream(CHUNK, "[DONE]"), "has None tokens instead of 3"),
        (_stream(CHUNK, {"usage": {"completion_tokens": 2}}, "[DONE]"), "has 2 tokens instead of 3"),
    ],
)
def test_a_long_answer_must_have_all_its_tokens(stream, fault):
    found = stream_fault(stream, tokens=3)
    assert (found == "") is (fault == "")
    assert fault in found


def _request(sent: float, ended: float, fault: str = "") -> Request:
    return Request(kind=Kind.TEXT, sent=sent, ended=ended, fault=fault)


def test_the_longest_gap_is_between_answers_and_failures_do_not_shorten_it():
    requests = [_request(0, 9), _request(1, 2), _request(3, 4, "HTTP 503"), _request(8, 9.5)]
    assert longest_gap(requests) == 7
    assert longest_gap([]) == float("inf")
    assert count(requests) == {"text": 4}


def test_a_request_is_in_flight_from_its_first_to_its_last_byte():
    assert was_in_flight(_request(1, 3), at=2)
    assert not was_in_flight(_request(1, 3), at=4)
    assert not was_in_flight(_request(1, 3), at=0.5)


def _result(name: str, *, failed: int = 0, in_flight: int = 0) -> Result:
    return Result(
        name=name, date="2026-11-30", machine="2 cores", sent={"text": 5, "image": 2}, failed=failed,
        failed_in_flight=in_flight, longest_gap=1.5, seconds=60.4, gpus_before=2, gpus_at_peak=4, pods_at_peak=6,
    )  # fmt: skip


def test_a_planned_change_may_lose_nothing_and_a_kill_only_what_was_in_flight():
    planned, kill = (next(s for s in SCENARIOS if s.is_planned is wanted) for wanted in (True, False))
    assert _result(planned.name).is_as_promised(planned)
    assert not _result(planned.name, failed=1, in_flight=1).is_as_promised(planned)
    assert _result(kill.name, failed=1, in_flight=1).is_as_promised(kill)
    assert not _result(kill.name, failed=2, in_flight=1).is_as_promised(kill)


def test_results_are_added_to_those_of_earlier_runs_in_the_order_of_the_scenarios(tmp_path):
    file = tmp_path / "results.json"
    first, second = SCENARIOS[0].name, SCENARIOS[1].name
    merge(file, [_result(second, failed=3, in_flight=2)])
    merged = merge(file, [_result(first)])
    assert [result.name for result in merged] == [first, second]
    lines = table(merged).splitlines()[2:]
    assert len(lines) == len(SCENARIOS)
    assert lines[0] == f"| {SCENARIOS[0].title} | 7 | 0 | 1.5 s | 60 s | 2, 4 |"
    assert "| 7 | 3 (2 in flight) |" in lines[1]
    assert all("not run" in line for line in lines[2:])


def test_a_layout_matches_a_spec_with_its_topology_and_replicas_only():
    spec = TWO_PD.manifest()["spec"]
    assert TWO_PD.matches(spec)
    assert not TWO_PD.matches({**spec, "pd": {**spec["pd"], "replicas": 1}})
    assert not TWO_PD.matches({})


def test_the_page_on_rollouts_has_all_scenarios():
    page = Path(REPOSITORY / "docs" / "rollouts.md").read_text()
    assert [s.title for s in SCENARIOS if f"| {s.title} |" not in page] == []
