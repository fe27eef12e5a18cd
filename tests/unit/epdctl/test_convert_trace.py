"""``epdctl convert-trace``: traces of other programs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from epdctl.app import app
from epdctl.traces import read_trace

# Lines as the documentation of each program shows them.
AIPERF = """\
{"metadata": {"session_num": 45, "request_start_ns": 1759813207532900363, "benchmark_phase": "profiling", "was_cancelled": false}, "metrics": {"input_sequence_length": {"value": 550, "unit": "tokens"}, "time_to_first_token": {"value": 255.88, "unit": "ms"}, "output_sequence_length": {"value": 9, "unit": "tokens"}, "num_images": {"value": 2, "unit": "images"}}, "error": null}
{"metadata": {"session_num": 46, "request_start_ns": 1759813207032900363, "was_cancelled": false}, "metrics": {"input_sequence_length": {"value": 20, "unit": "tokens"}, "output_sequence_length": {"value": 3, "unit": "tokens"}}, "error": null}
{"metadata": {"session_num": 80, "request_start_ns": 1759879161119147826, "was_cancelled": true}, "metrics": {"error_isl": {"value": 550, "unit": "tokens"}}, "error": {"code": 499, "type": "RequestCancellationError"}}
"""  # noqa: E501
MOONCAKE = """\
{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}
{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46, 61]}
"""
AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
AZURE_2024 = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.009930+00:00,2162,5
2024-05-10 00:00:00.017335+00:00,2399,6
"""
AZURE_IMAGES = """\
TIMESTAMP,NumImages,ContextTokens,GeneratedTokens
2024-10-15 00:00:01.5,2,3000,100
2024-10-15 00:00:02,0,30,10
"""


def convert(path: Path, text: str, form: str, *options: str) -> list[dict[str, object]]:
    path.write_text(text)
    answer = CliRunner().invoke(app, ["convert-trace", "--from", form, *options, str(path)])
    assert answer.exit_code == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_the_records_of_aiperf_are_sorted_and_failed_requests_left_out(tmp_path: Path):
    image = {"width": 1024, "height": 1024}

    assert convert(tmp_path / "trace", AIPERF, "aiperf") == [
        {"timestamp": 0.0, "textTokens": 20, "outputTokens": 3},
        {"timestamp": 0.5, "textTokens": 550, "outputTokens": 9, "images": [image, image]},
    ]


def test_times_of_mooncake_are_milliseconds(tmp_path: Path):
    assert convert(tmp_path / "trace", MOONCAKE, "mooncake") == [
        {"timestamp": 0.0, "textTokens": 6955, "outputTokens": 52},
        {"timestamp": 3.053, "textTokens": 6472, "outputTokens": 26},
    ]


@pytest.mark.parametrize(("text", "distance"), [(AZURE, 0.052), (AZURE_2024, 0.007405)])
def test_times_of_azure_have_up_to_seven_digits_after_the_second(tmp_path: Path, text: str, distance: float):
    first, second = convert(tmp_path / "trace", text, "azure")

    assert (first["timestamp"], second["timestamp"]) == (0.0, distance)


def test_the_tokens_of_images_are_part_of_the_context_of_azure(tmp_path: Path):
    first, second = convert(
        tmp_path / "trace", AZURE_IMAGES, "azure", "--image-size", "512x512", "--image-tokens", "200"
    )

    assert (first["textTokens"], first["images"]) == (2600, [{"width": 512, "height": 512, "tokens": 200}] * 2)
    assert (second["textTokens"], "images" in second) == (30, False)


@pytest.mark.parametrize(("text", "form"), [(AIPERF, "aiperf"), (MOONCAKE, "mooncake"), (AZURE_IMAGES, "azure")])
def test_converted_traces_can_be_simulated(tmp_path: Path, text: str, form: str):
    lines = convert(tmp_path / "trace", text, form)
    trace = tmp_path / "trace.jsonl"
    trace.write_text("\n".join(map(json.dumps, lines)))

    assert len(list(read_trace(str(trace)))) == 2


@pytest.mark.parametrize(
    ("text", "form", "message"),
    [
        ("", "aiperf", "has no completed request"),
        (AIPERF.splitlines()[2], "aiperf", "has no completed request"),
        ("{}", "aiperf", "line 1: metadata: Field required"),
        ("{", "mooncake", "line 1: "),
        ('{"timestamp": 1, "input_length": -1, "output_length": 1}', "mooncake", "line 1: input_length: Input should"),
        ("TIMESTAMP,ContextTokens\nx,1\n", "azure", "line 2: GeneratedTokens: Field required"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,1\n", "azure", "line 2: TIMESTAMP: 'noon' is not a time"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-01-01,1,1,7,7\n2024-01-01\n", "azure", "line 3: ContextTokens"),
    ],
)
def test_a_wrong_trace_gets_a_message_with_the_number_of_the_line(tmp_path: Path, text: str, form: str, message: str):
    file = tmp_path / "trace"
    file.write_text(text)

    answer = CliRunner().invoke(app, ["convert-trace", "--from", form, str(file)])

    assert (answer.exit_code, answer.stdout) == (2, "")
    assert f"{file}: {message}" in answer.stderr


@pytest.mark.parametrize("size", ["", "10", "0x5", "5x999999", "axb", "²x²"])
def test_a_size_that_is_none_is_refused(tmp_path: Path, size: str):
    (tmp_path / "trace").write_text(MOONCAKE)

    answer = CliRunner().invoke(
        app, ["convert-trace", "--from", "mooncake", "--image-size", size, str(tmp_path / "trace")]
    )

    assert answer.exit_code == 2
    assert "--image-size" in answer.stderr
