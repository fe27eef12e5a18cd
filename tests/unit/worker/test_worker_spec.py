"""EPD_GROUP and the command line: valid ones are parsed, invalid ones are refused with the path of the field."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epd_worker.spec import Role, SpecError, parse_group

GOOD = {
    "name": "pd",
    "role": "pd",
    "command": ["python3", "-m", "dynamo.vllm"],
    "healthUrl": "http://127.0.0.1:9091/health",
    "metricsUrl": "http://127.0.0.1:9091/metrics",
}


def _without(key):
    return {name: value for name, value in GOOD.items() if name != key}


def test_a_group_is_read_in_order():
    encoder = {**GOOD, "name": "encoder-0", "role": "encoder", "env": {"DYN_SYSTEM_PORT": "9092"}}
    group = parse_group(json.dumps({"processes": [encoder, GOOD], "cudaMps": True}))
    assert [process.name for process in group.processes] == ["encoder-0", "pd"]
    assert group.processes[0].role is Role.ENCODER
    assert group.processes[0].environment == {"DYN_SYSTEM_PORT": "9092"}
    assert group.processes[1].command == ("python3", "-m", "dynamo.vllm")
    assert group.cuda_mps


BAD_PROCESSES = [
    ("text", "processes[1]: must be an object, got str"),
    ({}, "processes[1].command: is required"),
    (_without("name"), "processes[1].name: is required"),
    (_without("healthUrl"), "processes[1].healthUrl: is required"),
    ({**GOOD, "comand": []}, "processes[1].comand: unknown field; known fields: command, env, healthUrl, metricsPort"),
    ({**GOOD, "name": "Encoder_0"}, "processes[1].name: must be a DNS label"),
    ({**GOOD, "name": 7}, "processes[1].name: must be a DNS label"),
    ({**GOOD, "name": "a/b"}, "processes[1].name: must be a DNS label"),
    ({**GOOD, "name": "first"}, "processes[1].name: 'first' is already used by processes[0]"),
    ({**GOOD, "role": "decode"}, "processes[1].role: must be one of frontend, encoder, pd, worker, got 'decode'"),
    ({**GOOD, "role": ["pd"]}, "processes[1].role: must be one of"),
    ({**GOOD, "command": []}, "processes[1].command: must be a non-empty list of strings"),
    ({**GOOD, "command": "python3 -m x"}, "processes[1].command: must be a non-empty list of strings"),
    ({**GOOD, "command": ["python3", 9090]}, "processes[1].command[1]: must be a string, got 9090"),
    ({**GOOD, "command": ["python3", "a\0b"]}, "processes[1].command[1]: must be a string"),
    ({**GOOD, "command": [""]}, "processes[1].command[0]: the program's name must not be empty"),
    ({**GOOD, "metricsPort": "9090"}, "processes[1].metricsPort: must be a port from 1 to 65535, got '9090'"),
    ({**GOOD, "metricsPort": True}, "processes[1].metricsPort: must be a port from 1 to 65535, got True"),
    ({**GOOD, "metricsPort": 0}, "processes[1].metricsPort: must be a port from 1 to 65535, got 0"),
    ({**GOOD, "metricsPort": 65536}, "processes[1].metricsPort: must be a port from 1 to 65535, got 65536"),
    ({**GOOD, "metricsPort": 9400}, "processes[1].metricsPort: 9400 is already used by processes[0]"),
    ({**GOOD, "env": []}, "processes[1].env: must be an object of strings"),
    ({**GOOD, "env": {"PORT": 1}}, "processes[1].env.PORT: must be a string, got 1"),
    ({**GOOD, "env": {"A=B": ""}}, "processes[1].env: 'A=B' is not a valid variable name"),
    ({**GOOD, "healthUrl": "https://127.0.0.1/health"}, "processes[1].healthUrl: must be an http:// URL"),
    ({**GOOD, "healthUrl": "http:///health"}, "processes[1].healthUrl: must be an http:// URL"),
    ({**GOOD, "healthUrl": "http://127.0.0.1:99999/"}, "processes[1].healthUrl: must be an http:// URL"),
    ({**GOOD, "metricsUrl": "http://127.0.0.1/m\r\nX: y"}, "processes[1].metricsUrl: must be an http:// URL"),
    ({**GOOD, "metricsUrl": None}, "processes[1].metricsUrl: must be an http:// URL"),
]


@pytest.mark.parametrize(("process", "message"), BAD_PROCESSES)
def test_an_invalid_process_is_refused_with_its_path(process, message):
    with pytest.raises(SpecError) as refusal:
        parse_group(json.dumps({"processes": [{**GOOD, "name": "first", "metricsPort": 9400}, process]}))
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "EPD_GROUP: is not valid JSON"),
        ("[" * 100_000, "EPD_GROUP: is not valid JSON"),
        ("[]", "EPD_GROUP: must be an object, got list"),
        ("{}", "processes: is required"),
        ('{"processes": []}', "processes: must be a list of 1 to 32 processes"),
        ('{"processes": {}}', "processes: must be a list of 1 to 32 processes"),
        ('{"processes": [1], "cudaMPS": true}', "cudaMPS: unknown field; known fields: cudaMps, processes"),
        ('{"processes": [1], "cudaMps": "yes"}', "cudaMps: must be true or false, got 'yes'"),
    ],
)
def test_an_invalid_group_is_refused_with_its_field(text, message):
    with pytest.raises(SpecError) as refusal:
        parse_group(text)
    assert str(refusal.value).startswith(message)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from([*GOOD, "env", "metricsPort", "processes", "cudaMps"]), inner)
    ),
)


@given(json_values)
def test_any_json_is_either_parsed_or_refused_with_a_spec_error(value):
    try:
        group = parse_group(json.dumps(value))
    except SpecError:
        return
    assert group.processes


ONE = ["run", "--name", "main"]
URLS = ["--health-url", "http://127.0.0.1:1/h", "--metrics-url", "http://127.0.0.1:1/m"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ONE, "--role", "pd", *URLS], "command after --: must be a non-empty list"),
        (
            [*ONE, "--role", "pd", "--", "true"],
            "arguments are required: --health-url, --metrics-url",
        ),
        ([*ONE, "--role", "x", *URLS, "--", "true"], "--role: must be one of frontend, encoder, pd"),
        (
            [*ONE, "--role", "pd", *URLS, "--settle", "-1", "--", "true"],
            "must be a number of seconds",
        ),
        ([*ONE, "--role", "pd", *URLS, "--settle", "nan", "--", "x"], "must be a number of seconds"),
        ([*ONE, "--role", "pd", *URLS, "--control-port", "0", "--", "x"], "a port from 1 to 65535"),
        (
            [*ONE, "--role", "frontend", *URLS, "--models-url", "ftp://x", "--", "x"],
            "--models-url: must be an http:// URL",
        ),
        (["run-group"], "EPD_GROUP: is not set"),
        (["fly"], "invalid choice: 'fly'"),
        ([], "are required: subcommand"),
    ],
)
def test_an_invalid_command_line_ends_with_2_and_the_reason(arguments, message):
    environment = {name: value for name, value in os.environ.items() if name != "EPD_GROUP"}
    done = subprocess.run(
        [sys.executable, "-m", "epd_worker", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_reason_for_an_invalid_group_is_in_the_termination_log(workbench):
    launcher = workbench.launch(group={"processes": [{**GOOD, "command": "python3"}]})
    assert launcher.wait() == 2
    assert launcher.message() == "processes[0].command: must be a non-empty list of strings, the program first"
