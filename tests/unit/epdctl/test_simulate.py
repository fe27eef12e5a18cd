"""``epdctl simulate`` as a user types it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from epdctl.app import app
from support.specs import TOPOLOGIES, raw_spec

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = [str(path) for path in sorted((ROOT / "examples/gpu").glob("*.yaml"))]

TRAFFIC: dict[str, Any] = {
    "traffic": {
        "rate": 4,
        "durationSeconds": 60,
        "requests": [
            {
                "name": "documents",
                "share": 40,
                "textTokens": 800,
                "outputTokens": 100,
                "images": {"count": 3, "width": 1700, "height": 2200, "tokens": 1024},
            },
            {"name": "text", "share": 60, "textTokens": 800, "outputTokens": 100},
        ],
    },
    "slo": {"interTokenLatencyMilliseconds": 50, "timeToFirstTokenMilliseconds": 1000},
    "model": {"parameters": 8, "hiddenSize": 4096, "visionParameters": 0.6},
    "gpus": [
        {"product": "NVIDIA-GB200", "pricePerHour": 10},
        {"product": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "pricePerHour": 2},
    ],
}


def manifest(topology: str = "Disaggregated", **changes: Any) -> dict[str, Any]:
    spec = raw_spec(topology, **changes)
    spec["pools"][1].setdefault("gpu", {"product": "NVIDIA-L40S"})
    return {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "metadata": {"name": "qwen-vl"}, "spec": spec}


def changed(path: str, value: Any, *, document: dict[str, Any] = TRAFFIC) -> dict[str, Any]:
    """A copy with one field changed, or removed if the value is ``...``."""
    result = copy.deepcopy(document)
    *parents, last = path.split(".")
    place: Any = result
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    key: Any = int(last) if isinstance(place, list) else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return result


def run(*documents: Any, options: tuple[str, ...] = (), files: tuple[str, ...] = ()):
    """The documents arrive on standard input."""
    arguments = [argument for file in files for argument in ("-f", file)]
    text = yaml.safe_dump_all(documents)
    return CliRunner().invoke(app, ["simulate", *arguments, "-f", "-", *options], input=text)


def result(*documents: Any, **more: Any) -> dict[str, Any]:
    answer = run(*documents, options=("-o", "json"), **more)
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)


def refusal(*documents: Any, **more: Any) -> str:
    answer = run(*documents, **more)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "Traceback" not in answer.stderr
    return answer.stderr


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_manifest_and_traffic_give_latencies_goodput_utilisation_and_cost(topology: str):
    answer = run(
        TRAFFIC, manifest(topology, pools=[{"name": n, "gpu": {"product": "NVIDIA-GB200"}} for n in ("gb200", "rtx")])
    )

    assert answer.exit_code == 0, answer.stderr
    for text in (
        "TTFT with images",
        "P99",
        "goodput",
        "ITL < 50.0 ms and TTFT < 1000.0 ms",
        "PD, decode",
        "million tokens",
    ):
        assert text in answer.stdout
    assert all(len(line) <= 80 for line in answer.stdout.splitlines())


def test_several_manifests_are_compared_in_one_table():
    answer = run(TRAFFIC, files=tuple(EXAMPLES))

    header, *rows = answer.stdout.splitlines()[:4]
    assert header.split() == ["DEPLOYMENT", "GPUS", "GOODPUT", "TTFT", "ITL", "E2E", "COST"]
    assert [row.split()[1].strip("(")[:9] for row in rows] == ["Aggregate", "CoLocated", "Disaggreg"]


def test_json_and_yaml_have_the_same_content():
    by_json, by_yaml = (run(TRAFFIC, manifest(), options=("-o", form)).stdout for form in ("json", "yaml"))

    assert json.loads(by_json) == yaml.safe_load(by_yaml)


def test_the_same_seed_gives_the_same_result_and_another_seed_another():
    one, again = (run(TRAFFIC, manifest(), options=("--seed", "3")).stdout for _ in range(2))

    assert one == again != run(TRAFFIC, manifest(), options=("--seed", "4")).stdout


def test_the_cost_is_that_of_all_gpus():
    (found,) = result(TRAFFIC, files=(next(path for path in EXAMPLES if "disaggregated" in path),))["deployments"]

    encoders, workers = 2, 4
    assert found["pricePerHour"] == encoders * 2 + workers * 10
    assert found["pricePerMillionOutputTokens"] == pytest.approx(
        found["pricePerHour"] * found["seconds"] / 3600 / found["outputTokens"] * 1e6
    )


def test_the_highest_goodput_is_at_least_that_at_the_given_rate():
    answer = run(changed("traffic.rate", 1), manifest("Aggregated"), options=("-o", "json", "--highest-goodput"))
    (found,) = json.loads(answer.stdout)["deployments"]

    assert found["highestGoodput"]["goodput"] > found["goodput"]


@pytest.mark.parametrize(
    ("args", "faster"),
    [
        (["--max-num-seqs", "1"], False),
        (["--max-num-seqs=1"], False),
        (["--max-num-seqs", "1", "--max-num-seqs", "99"], True),
    ],
)
def test_arguments_of_the_engine_count(args: list[str], faster: bool):
    def e2e(**changes: Any) -> float:
        spec = manifest("Aggregated", worker={"pool": "gb200", "replicas": 1, **changes})
        return result(TRAFFIC, spec)["deployments"][0]["latenciesMs"]["e2e"]["all"]["mean"]

    assert (e2e(args=args) < 2 * e2e()) is faster


def test_a_cache_of_embeddings_and_the_frontend_decoding_of_the_manifest_count():
    repeated = changed("traffic.requests.0.images.different", 5)
    cached = {"encoder": {"pool": "rtx"}, "pd": {"pool": "gb200", "embeddingCache": "1Gi"}}

    (found,) = result(repeated, manifest(**cached, frontend={"mediaDecoding": "Frontend"}))["deployments"]

    assert found["cachedImages"] > found["images"] / 2
    assert found["utilisation"]["frontend"] > 0


def test_the_objective_of_the_manifest_counts_if_the_traffic_has_none():
    answer = run(changed("slo", ...), manifest(slo={"interTokenLatencyMilliseconds": 70}))

    assert "ITL < 70.0 ms" in answer.stdout


def test_a_model_is_known_by_the_name_in_the_manifest():
    by_name = result(changed("model", ...), manifest(model={"name": "Qwen/Qwen3.5-4B"}))
    large = result(changed("model", ...), manifest(model={"name": "Qwen/Qwen3.5-27B"}))

    itl = [one["deployments"][0]["latenciesMs"]["itl"]["all"]["mean"] for one in (by_name, large)]
    assert itl[0] < itl[1] / 2


def test_requests_of_a_trace_are_simulated(tmp_path: Path):
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        '{"timestamp": 0, "textTokens": 10, "outputTokens": 5}\n\n'
        '{"timestamp": 1, "textTokens": 10, "outputTokens": 5, "images": [{"width": 640, "height": 480, "id": "a"}]}\n'
    )
    file = tmp_path / "traffic.yaml"
    file.write_text(yaml.safe_dump({**TRAFFIC, "traffic": {"trace": "trace.jsonl"}}))

    (found,) = result(manifest(), files=(str(file),))["deployments"]

    assert (found["requests"], found["images"], found["promptTokens"]) == (2, 1, 20 + 300)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("traffic.rate", 0, "traffic.rate: Input should be greater than 0"),
        ("traffic.rate", ..., "traffic: Value error, requests need a rate"),
        ("traffic.rate", float("nan"), "traffic.rate: Input should be"),
        ("traffic.rate", 1e9, "traffic.rate: Input should be less than or equal to 100000"),
        ("traffic.durationSeconds", 1e8, "rate, durationSeconds: more than 10000000 requests"),
        ("traffic.requests", [], "traffic.requests: List should have at least 1 item"),
        ("traffic.requests", ..., "traffic: Value error, set requests and rate, or trace"),
        ("traffic.requests.0.outputTokens", -1, "traffic.requests.0.outputTokens: Input should be greater"),
        ("traffic.requests.0.textTokens", 10**30, "traffic.requests.0.textTokens: Input should be less"),
        ("traffic.requests.0.images.height", ..., "traffic.requests.0.images: Value error, set both width and height"),
        ("traffic.requests.0.images.count", 10**6, "traffic.requests.0.images.count: Input should be less"),
        ("traffic.requests.0.speed", 1, "traffic.requests.0.speed: Extra inputs are not permitted"),
        ("traffic.trace", "x", "traffic: Value error, set requests and rate, or trace"),
        ("traffic.warmUpSeconds", 60, "warmUpSeconds: the warm-up is as long as the whole run"),
        ("slo.interTokenLatencyMilliseconds", 0, "slo.interTokenLatencyMilliseconds: Input should be greater than 0"),
        ("model.activeParameters", 9, "activeParameters: more than parameters"),
        ("model", ..., "spec.model.name: 'Qwen/Qwen3-VL-8B-Instruct' is not one of the known models (qwen3.5-122b"),
        ("gpus.0.pricePerHour", -1, "gpus.0.pricePerHour: Input should be greater"),
        ("transferGigabitsPerSecond", 0, "transferGigabitsPerSecond: Input should be greater than 0"),
    ],
)
def test_a_wrong_traffic_file_gets_a_message_with_the_path_of_the_field(path: str, value: Any, message: str):
    assert message in refusal(changed(path, value), manifest())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pd": None}, "-: spec.pd: missing: topology Disaggregated needs it"),
        ({"pd": {"pool": "other"}}, "-: spec.pd.pool: there is no pool 'other' in spec.pools"),
        ({"pools": [{"name": "gb200"}, {"name": "rtx"}]}, "-: spec.pools.0.gpu.product: missing"),
        (
            {"pools": [{"name": n, "gpu": {"product": "Abacus"}} for n in ("gb200", "rtx")]},
            "-: spec.pools.0.gpu.product: Abacus is not one of the known GPUs (GB200,",
        ),
        ({"pd": {"pool": "gb200", "args": ["--max-num-seqs", "many"]}}, "-: --max-num-seqs: 'many' is not a number"),
        ({"pd": {"pool": "gb200", "args": ["--max-num-seqs"]}}, "-: --max-num-seqs: '' is not a number"),
    ],
)
def test_a_wrong_manifest_gets_a_message_with_the_path_of_the_field(changes: dict[str, Any], message: str):
    assert message in refusal(TRAFFIC, manifest(**changes))


def test_both_kinds_of_files_are_needed():
    assert "give exactly one traffic file (found: none)" in refusal(manifest())
    assert "no file has an EPDDeployment" in refusal(TRAFFIC)
    assert "give exactly one traffic file (found: -, -)" in refusal(TRAFFIC, TRAFFIC, manifest())
    assert "/nowhere: cannot be read" in refusal(TRAFFIC, files=("/nowhere",))
    assert "is not YAML" in CliRunner().invoke(app, ["simulate", "-f", "-"], input="a: b: c").stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "the trace is empty"),
        ("{", "line 1: is not JSON"),
        ("[" * 20_000, "line 1: "),
        ("3", "line 1: the line: Input should be"),
        ('{"timestamp": 0, "textTokens": 1}', "line 1: outputTokens: Field required"),
        ('{"timestamp": -1, "textTokens": 1, "outputTokens": 1}', "line 1: timestamp: Input should be greater"),
        ('{"timestamp": NaN, "textTokens": 1, "outputTokens": 1}', "line 1: timestamp: Input should be"),
        ('{"timestamp": 1e999, "textTokens": 1, "outputTokens": 1}', "line 1: timestamp: Input should be"),
        (
            '{"timestamp": 0, "textTokens": 1, "outputTokens": 1, "images": [{"width": 5}]}',
            "line 1: images.0: Value error, set both width and height",
        ),
        (
            "\n".join(f'{{"timestamp": {time}, "textTokens": 1, "outputTokens": 1}}' for time in (2, 1)),
            "line 2: timestamp: 1 is before the line above it",
        ),
    ],
)
def test_a_wrong_trace_gets_a_message_with_the_number_of_the_line(tmp_path: Path, line: str, message: str):
    (tmp_path / "trace.jsonl").write_text(line)

    answer = refusal({**TRAFFIC, "traffic": {"trace": str(tmp_path / "trace.jsonl")}}, manifest())

    assert f"trace.jsonl: {message}" in answer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLACES = [
    "traffic", "traffic.rate", "traffic.durationSeconds", "traffic.requests", "traffic.requests.0.images",
    "traffic.requests.0.textTokens", "slo", "model", "model.bits", "gpus", "gpus.0", "transferGigabitsPerSecond",
    "frontendCores",
]  # fmt: skip


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(place=st.sampled_from(PLACES), value=json_values)
def test_no_value_of_any_field_leads_to_a_traceback(place: str, value: Any):
    small = changed("traffic.durationSeconds", 2)

    answer = run(changed(place, value, document=small), manifest())

    assert answer.exit_code in (0, 2), answer.exception
    assert answer.stdout if answer.exit_code == 0 else answer.stderr.startswith("error: ")


def test_an_unknown_topology_is_refused():
    document = changed("spec.topology", "Sideways", document=manifest())

    assert "-: spec.topology: Input should be 'Aggregated'" in refusal(TRAFFIC, document)


def test_the_files_in_the_documentation_are_read(tmp_path: Path):
    page = (ROOT / "docs/simulate.md").read_text()
    traffic = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    trace = "\n".join(line for line in page.splitlines() if line.startswith('{"timestamp"'))
    (tmp_path / "trace.jsonl").write_text(trace)

    shorter = changed("traffic.durationSeconds", 400, document=traffic)
    assert len(result(shorter, files=tuple(EXAMPLES))["deployments"]) == len(EXAMPLES)

    replayed = {**traffic, "traffic": {"trace": str(tmp_path / "trace.jsonl")}}
    assert result(replayed, files=(EXAMPLES[0],))["deployments"][0]["images"] == 2
