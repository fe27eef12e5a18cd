"""The line that says why a process failed, in real outputs of Dynamo 1.6.1 with vLLM 0.31.0 (`outputs/`) and others."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_worker.output import Line
from epd_worker.root_cause import root_cause
from epd_worker.termination import quote_output

OUTPUTS = Path(__file__).with_name("outputs")
ANSWER = (
    "2026-11-30T06:45:46.715979Z \x1b[31mERROR\x1b[0m \x1b[2mtower_http::trace::on_failure\x1b[0m: response failed "
    "classification=Status code: 503 Service Unavailable latency=0 ms"
)


def _lines(*texts: str) -> list[Line]:
    return [Line(text=text) for text in texts]


def _cause(*texts: str) -> str | None:
    found = root_cause(_lines(*texts))
    return found and found.text


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        ("wrong-variable", "error: ValueError: VLLM_PORT 'tcp://1.2.3.4:80' appears to be a URI."),
        ("missing-model", "output: huggingface_hub.errors.HFValidationError: Repo id must be in the form"),
        ("wrong-flag", "output: __main__.py: error: unrecognized arguments: --no-such-flag"),
        ("too-small-cache", "error: ValueError: No available memory for the cache blocks."),
    ],
)
def test_the_cause_of_a_real_failure_is_quoted(output: str, cause: str) -> None:
    text = (OUTPUTS / f"{output}.txt").read_text()
    assert quote_output(_lines(*text.splitlines())).startswith(f"last {cause}")


def test_an_answer_to_a_request_of_the_launcher_is_never_quoted() -> None:
    assert quote_output(_lines(ANSWER, ANSWER)) == "no output"
    assert quote_output(_lines("loading", ANSWER)) == "last output: loading"
    quoted = quote_output(_lines("ValueError: no", ANSWER, "stopping", ANSWER))
    assert quoted == "last error: ValueError: no; last output: stopping"


@pytest.mark.parametrize(
    ("texts", "cause"),
    [
        (["Traceback (most recent call last):", '  File "x"', "KeyError: 'a'", "", "bye"], "KeyError: 'a'"),
        (["Traceback (most recent call last):", '  File "x"', "zmq.error.Again: busy", "bye"], "zmq.error.Again: busy"),
        (
            ["Traceback (most recent call last):", "KeyError: 'a'", "During handling of the above exception, another",
             "Traceback (most recent call last):", "ValueError: no tokenizer"],
            "ValueError: no tokenizer",
        ),
        (["(Worker_TP0 pid=9) ERROR 11-30 06:45:46 [x.py:1] RuntimeError: NCCL"], "RuntimeError: NCCL"),
        (
            ["torch.OutOfMemoryError: CUDA out of memory. Tried", "RuntimeError: Failed. See root cause above.", "bye"],
            "torch.OutOfMemoryError: CUDA out of memory. Tried",
        ),
        (["RuntimeError: Engine core initialization failed. See root cause above."],
         "RuntimeError: Engine core initialization failed. See root cause above."),
        (["thread 'main' panicked at src/main.rs:1:5:", "no address", "note: run with"],
         "thread 'main' panicked at src/main.rs:1:5: no address"),
        (["thread 'main' panicked at 'no address', src/main.rs:1:5"],
         "thread 'main' panicked at 'no address', src/main.rs:1:5"),
        (["Fatal Python error: Segmentation fault", "", 'Current thread 0x1:', '  File "x", line 1 in f'],
         "Fatal Python error: Segmentation fault"),
        (["terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"],
         "  what():  std::bad_alloc"),
        (["usage: x [-h]", "         [--log-level {CRITICAL,ERROR,INFO}]", "done"], None),
        (["INFO: ready", "Loading weights: 100%"], None),
    ],
)  # fmt: skip
def test_the_cause_is_found_in_each_form_of_output(texts: list[str], cause: str | None) -> None:
    assert _cause(*texts) == cause


def test_an_exception_that_the_process_has_survived_is_not_the_cause() -> None:
    lines = [Line(text="ValueError: bad image", age=900), Line(text="ERROR lost the GPU", age=1)]
    found = root_cause(lines)
    assert found is not None
    assert found.text == "ERROR lost the GPU"
