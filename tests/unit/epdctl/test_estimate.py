"""``epdctl estimate`` as a user types it."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from typer.testing import CliRunner

from epdctl.app import app

PUBLISHED = ["--encode", "420", "--prefill", "90", "--decode", "260", "--transfer", "35", "--queue-saved", "180"]


def run(*arguments: str, stdin: str = ""):
    return CliRunner().invoke(app, ["estimate", *arguments], input=stdin)


def refusal(*arguments: str, stdin: str = "") -> str:
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


def test_the_published_example_prints_the_published_figures():
    first, second, *_ = run(*PUBLISHED).stdout.splitlines()

    assert first.split() == ["REQUESTS", "AGGREGATED", "SPLIT", "GAIN", "ADVICE"]
    assert second == "request    770.0 ms     625.0 ms   +18.8 %   worth a real test"


@pytest.mark.parametrize(
    ("change", "gain", "advice"),
    [
        (["--decode", "1200"], 8.48, "stay aggregated for now"),
        (["--transfer", "220"], -5.195, "stay aggregated for now"),
    ],
)
def test_the_published_exercises_stay_aggregated(change: list[str], gain: float, advice: str):
    (estimate,) = json.loads(run(*PUBLISHED, *change, "-o", "json").stdout)["estimates"]

    assert (estimate["gainPercent"], estimate["advice"]) == (pytest.approx(gain, abs=0.001), advice)


def test_json_and_yaml_have_the_same_content():
    by_json, by_yaml = (run(*PUBLISHED, "--sweep", "decode=1..2", "-o", form).stdout for form in ("json", "yaml"))

    assert json.loads(by_json) == yaml.safe_load(by_yaml)
    assert json.loads(by_json)["estimates"][0]["breakEvenMs"]["transfer"] == pytest.approx(103)


def test_the_bar_shows_the_shares_of_the_stages():
    bar = run("--encode", "50", "--prefill", "25", "--decode", "25").stdout.splitlines()[4].strip()

    assert (len(bar), bar.count("E"), set(bar)) == (78, 39, {"E", "P", "D"})


def test_a_sweep_shows_where_the_advice_changes():
    result = run(*PUBLISHED, "--sweep", "decode=128..2048", "--points", "3")

    assert "decode < 940.0 ms" in result.stdout
    assert [line.split()[-1] for line in result.stdout.splitlines()[-3:]] == ["test", "now", "now"]


def test_a_request_that_saves_no_waiting_time_says_how_much_it_would_have_to_save():
    lines = run("--encode", "1", "--prefill", "1", "--decode", "1").stdout.splitlines()

    assert lines[-2:] == [
        "    queue saved > 0.3 ms",
        "  separate encoders cost time if transfer > 0.0 ms (queue saved)",
    ]


def test_several_workloads_are_shown_with_their_sum(tmp_path: Path):
    file = tmp_path / "workloads.yaml"
    file.write_text(
        "workloads:\n"
        "- {name: images, share: 1, encode: 420, prefill: 90, decode: 260, transfer: 35, queueSaved: 180}\n"
        "- {name: text, share: 1, encode: 0, prefill: 90, decode: 260, queueSaved: 100}\n"
    )

    estimates = json.loads(run("-f", str(file), "-o", "json").stdout)["estimates"]

    assert [estimate["name"] for estimate in estimates] == ["images", "text", "all requests"]
    assert estimates[2]["aggregatedMs"] == 560


def test_the_file_in_the_documentation_is_read():
    page = Path(__file__).parents[3].joinpath("docs/estimate.md").read_text()
    text = page.partition("```yaml\n")[2].partition("```")[0]

    assert len(json.loads(run("-f", "-", "-o", "json", stdin=text).stdout)["estimates"]) == 3


def test_a_sweep_of_several_workloads_varies_their_mean():
    text = json.dumps({"workloads": [{"name": name, "encode": 1, "prefill": 1, "decode": 1} for name in "ab"]})

    data = json.loads(run("-f", "-", "--sweep", "decode=4..6", "--points", "2", "-o", "json", stdin=text).stdout)

    assert [estimate["aggregatedMs"] for estimate in data["sweep"]["estimates"]] == [6, 8]


def test_the_file_can_come_from_standard_input():
    text = "workloads: [{name: a, encode: 1, prefill: 1, decode: 1}]"

    assert "a " in run("-f", "-", stdin=text).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: --encode, --prefill, --decode: missing"),
        (["--encode", "1", "--prefill", "1"], "error: --decode: missing"),
        ([*PUBLISHED, "--decode", "-3"], "error: --decode: -3 is not a time: use milliseconds from 0"),
        ([*PUBLISHED, "--transfer", "nan"], "error: --transfer: nan is not a time"),
        ([*PUBLISHED, "--queue-saved", "5000"], "error: --queue-saved: 5000 ms is more than the whole request takes"),
        (["--encode", "0", "--prefill", "0", "--decode", "0"], "error: --encode, --prefill, --decode: all are 0"),
        ([*PUBLISHED, "--sweep", "speed=1..2"], "with a TIME of encode, prefill, decode, transfer, queue-saved"),
        ([*PUBLISHED, "--sweep", "decode=9..1"], "FIRST is less than LAST"),
        ([*PUBLISHED, "--sweep", "decode=1..inf"], "FIRST and LAST are milliseconds"),
        (
            [*PUBLISHED, "--sweep", "queue-saved=0..5000"],
            "error: --sweep: queue_saved: 1250 ms is more than the whole request",
        ),
        ([*PUBLISHED, "-f", "-"], "--filename: cannot be combined with --encode"),
        (["-f", "/nowhere"], "error: /nowhere: cannot be read"),
    ],
)
def test_wrong_options_get_one_message_that_says_what_to_change(arguments: list[str], message: str):
    assert message in refusal(*arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the document: "),
        ("workloads: []", "workloads: List should have at least 1 item"),
        ("workloads: [{name: a, encode: 1, prefill: 1}]", "workloads.0.decode: Field required"),
        (
            "workloads: [{name: a, encode: x, prefill: 1, decode: 1}]",
            "workloads.0.encode: Input should be a valid number",
        ),
        ("workloads: [{name: a, encode: 1, prefill: 1, decode: 1, speed: 3}]", "workloads.0.speed: Extra inputs"),
        (
            "workloads: [{name: a, encode: 1, prefill: 1, decode: 1, queueSaved: -1}]",
            "workloads.0.queueSaved: -1 is not",
        ),
        ("workloads: [{name: a, share: 0, encode: 1, prefill: 1, decode: 1}]", "workloads.0.share: 0 is not a share"),
        ("a: b: c", "is not YAML"),
        ("[" * 5000, "is not YAML"),
    ],
)
def test_a_wrong_file_gets_a_message_with_the_path_of_the_field(text: str, message: str):
    answer = refusal("-f", "-", stdin=text)

    assert message in answer
    assert "Traceback" not in answer


@pytest.mark.parametrize("text", ["a: !!int ''", "a: !!float ''", "a: !!bool maybe", "a: !!timestamp x", "{[a]: 1}"])
def test_tags_whose_values_do_not_fit_are_refused_without_a_traceback(text: str):
    result = run("-f", "-", stdin=text)
    assert result.exit_code == 2
    assert "is not YAML" in result.stderr
    assert "Traceback" not in result.stderr


@given(name=st.text(min_size=1, max_size=60))
def test_every_name_fits_into_80_columns_and_cannot_control_the_terminal(name: str):
    text = json.dumps({"workloads": [{"name": name, "encode": 1e9, "prefill": 1e9, "decode": 1e9}]})

    result = run("-f", "-", stdin=text)

    assert result.exit_code in (0, 2)
    assert all(line.isprintable() for line in (result.stdout + result.stderr).splitlines())
    # In columns of the terminal: combining characters take none.
    assert all(cell_len(line) <= 80 for line in result.stdout.splitlines())
