"""``epdctl rollout`` as a user types it, against HTTP answers of a cluster."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.plan.rollout.history import HAS_SERVED, content_of
from epdctl.app import app
from epdctl.rollout.session import FIELD_MANAGER
from epdctl.rollout.text import MAX_CHANGES, age_of
from support.fake_api import Answer, FakeApi, Sent, kubeconfig
from support.specs import raw_spec

OBJECT = "/apis/epd.dev/v1alpha1/namespaces/models/epddeployments/qwen"
RECORDS = "/apis/apps/v1/namespaces/models/controllerrevisions"
QWEN = Identity(name="qwen", namespace="models", uid="1")
SECRET = "hunter2-hunter2"
FIRST = raw_spec("Aggregated")
SECOND = raw_spec(
    "Aggregated",
    runtime={
        "image": "example.test/epd:1",
        "args": ["--max-num-seqs", "64", "--api-key", SECRET],
        "env": [{"name": "HF_TOKEN", "value": SECRET}],
    },
)
THIRD = raw_spec("CoLocated")


def record(raw: dict[str, Any], *, number: int, revision: str = "initial", served: bool = True, uid: str = "1"):
    annotations = {HAS_SERVED: "true"} if served else {}
    return {
        "metadata": {
            **QWEN.metadata(f"qwen-{number}", labels={"epd.dev/revision": revision}),
            "ownerReferences": [{**QWEN.owner_reference, "uid": uid}],
            "annotations": annotations,
            "creationTimestamp": f"2026-11-0{number}T12:00:00Z",
        },
        "data": {"spec": content_of(EPDDeploymentSpec.model_validate(raw))},
        "revision": number,
    }


def condition(kind: str, status: str, reason: str = "Any", message: str = "any") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def status(reason: str = "AllStagesReady", message: str = "all stages are ready", **changes: Any) -> dict[str, Any]:
    ready = "True" if reason == "AllStagesReady" else "False"
    revisions = [
        {"name": "initial", "state": "Serving", "topology": "Aggregated", "summary": "frontend 1/1, worker 2/2"},
        {"name": "8c1f2a", "state": "Starting", "topology": "CoLocated", "summary": "frontend 0/1, group 0/2"},
    ]
    return {
        "observedGeneration": 3,
        "revisions": revisions,
        "conditions": [condition("Ready", ready, reason, message), condition("Stalled", "False")],
        **changes,
    }


def qwen(raw: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "epd.dev/v1alpha1",
        "kind": "EPDDeployment",
        "metadata": {"name": "qwen", "namespace": "models", "uid": "1", "generation": 3, "resourceVersion": "7"}
        | metadata,
        "spec": raw or {**THIRD, "rollout": {"strategy": "Recreate"}},
        "status": status(),
    }


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """A cluster with one object that had three specs."""
    records = [
        record(THIRD, number=3, revision="8c1f2a", served=False),
        record(FIRST, number=1),
        record(SECOND, number=2, revision="5d5d5d"),
        record(FIRST, number=9, uid="of an earlier object"),
    ]
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with FakeApi(objects={OBJECT: qwen(), RECORDS: {"items": records}}).running() as running:
        path = kubeconfig(tmp_path / "config", url=running.url, namespace="models")
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield running


def run(*arguments: str):
    result = CliRunner().invoke(app, ["rollout", *arguments])
    assert "Traceback" not in result.output
    assert SECRET not in result.output or "--show-values" in arguments
    assert "token-of" not in result.output
    return result


def refusal(*arguments: str) -> tuple[int, str]:
    result = run(*arguments)
    return result.exit_code, result.stderr


def test_the_documentation_names_every_command_and_option() -> None:
    page = Path(__file__).parents[3].joinpath("docs/rollouts.md").read_text()
    commands = get_command(app).commands["rollout"].commands

    for name, command in commands.items():
        assert f"epdctl rollout {name} NAME" in page
        options = [found.opts for found in command.params if found.param_type_name == "option" and found.name != "help"]
        assert [opts for opts in options if not any(opt in page for opt in opts)] == []


# Status


def test_a_status_shows_the_revisions_and_what_the_rollout_waits_for(api: FakeApi) -> None:
    message = "revision 8c1f2a: group 0/2: the pod waits for a node " + "that has GPUs " * 200
    api.objects[OBJECT]["status"] = status("RolloutBlocked", message)

    result = run("status", "qwen")

    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[:3] == [
        "REVISION   STATE      TOPOLOGY     PODS READY",
        "initial    Serving    Aggregated   frontend 1/1, worker 2/2",
        "8c1f2a     Starting   CoLocated    frontend 0/1, group 0/2",
    ]
    assert lines[3] == "strategy:  Recreate"
    assert lines[4].startswith("waits for: RolloutBlocked: revision 8c1f2a: group 0/2")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert api.writes() == []


@pytest.mark.parametrize(("form", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_status_for_programs_has_the_outcome_and_all_revisions(api: FakeApi, form: str, parse: Any) -> None:
    api.objects[OBJECT]["status"] = status("RolloutBlocked", "no GPU")
    found = parse(run("status", "qwen", "-o", form).stdout)
    assert (found["outcome"], found["reason"], found["paused"]) == ("Waiting", "RolloutBlocked", False)
    assert found["waitsFor"] == "RolloutBlocked: no GPU"
    assert found["revisions"][0].keys() == {"name", "state", "topology", "pods"}


def test_a_status_is_followed_as_text_only(api: FakeApi) -> None:
    assert "use one of the two" in refusal("status", "qwen", "--watch", "-o", "json")[1]
    assert not api.sent


def test_a_status_of_long_names_and_many_stages_fits_80_columns(api: FakeApi) -> None:
    summary = ", ".join(f"{stage} 1000/1000" for stage in ("frontend", "encoder", "pd", "group", "worker"))
    long = {"name": "r" * 63, "state": "Starting", "topology": "Disaggregated", "summary": summary}
    api.objects[OBJECT]["status"]["revisions"] = [long]

    lines = run("status", "qwen").stdout.splitlines()

    assert max(map(len, lines)) <= 80
    assert "worker" in lines[2] or "worker" in lines[3]


@pytest.mark.parametrize("odd", [None, 3, {"conditions": 3, "revisions": [3, {"name": 3}]}, {"conditions": [{}]}])
def test_a_status_that_another_client_has_broken_is_shown_as_not_reported(api: FakeApi, odd: Any) -> None:
    api.objects[OBJECT]["status"] = odd

    assert "the operator has not reported on the present" in run("status", "qwen").stdout


def test_following_ends_with_0_when_the_rollout_is_complete(api: FakeApi) -> None:
    result = run("status", "qwen", "--watch")

    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "the rollout of qwen is complete")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conditions": [condition("Ready", "False"), condition("Stalled", "True", "NameTaken", "x")]}, "NameTaken: x"),
        ({"conditions": [condition("Ready", "False", "RolloutPaused", "paused")]}, "RolloutPaused: paused"),
        ({"conditions": [condition("Ready", "False", "ProgressDeadlineExceeded", "late")]}, "late"),
    ],
)
def test_following_ends_with_1_at_once_if_only_a_person_can_continue(
    api: FakeApi, changes: dict[str, Any], message: str
) -> None:
    api.objects[OBJECT]["status"] = status(**changes)

    code, text = refusal("status", "qwen", "-w")

    assert code == 1
    assert text.startswith("error: the rollout does not continue without a person")
    assert message in text


# History


def test_the_history_shows_numbers_states_and_changes_without_values_of_variables(api: FakeApi) -> None:
    result = run("history", "qwen")

    assert [line.split(maxsplit=3)[0] for line in result.stdout.splitlines() if not line.startswith(" ")] == [
        "NUMBER",
        *"123",
    ]
    assert "present, never served" in result.stdout
    assert "runtime.env[HF_TOKEN]: added" in result.stdout
    assert "runtime.args: (none) -> --max-num-seqs 64 --api-key [not shown]" in " ".join(result.stdout.split())
    assert "topology: Aggregated -> CoLocated" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_many_changes_of_one_record_are_counted(api: FakeApi) -> None:
    api.objects[RECORDS]["items"][0]["data"]["spec"] |= {f"field{n}": n for n in range(20)}
    changes = json.loads(run("history", "qwen", "-o", "json").stdout)[-1]["changes"]

    text = run("history", "qwen").stdout

    *shown, more = text.partition("present, never served\n")[2].splitlines()
    assert len(shown) == MAX_CHANGES
    assert more == f"    {len(changes) - MAX_CHANGES} more, which -o yaml shows"


def test_the_history_of_programs_has_the_same_content_in_json_and_yaml(api: FakeApi) -> None:
    by_json, by_yaml = (run("history", "qwen", "-o", form).stdout for form in ("json", "yaml"))

    entries = json.loads(by_json)
    assert entries == yaml.safe_load(by_yaml)
    assert [(e["number"], e["revision"], e["present"], e["hasServed"]) for e in entries] == [
        (1, "initial", False, True),
        (2, "5d5d5d", False, True),
        (3, "8c1f2a", True, False),
    ]
    assert entries[0]["changes"] is None
    assert {"path": "group", "change": "added", "before": "(not set)"} in entries[2]["changes"]


def test_one_record_is_shown_as_a_whole_with_values_only_on_request(api: FakeApi) -> None:
    hidden, shown = (
        yaml.safe_load(run("history", "qwen", "--revision", "2", *more).stdout) for more in ([], ["--show-values"])
    )

    assert hidden["spec"]["runtime"]["env"] == [{"name": "HF_TOKEN", "value": "[not shown]"}]
    assert hidden["spec"]["worker"] == shown["spec"]["worker"]
    assert shown["spec"] == api.objects[RECORDS]["items"][2]["data"]["spec"]


def test_a_present_spec_that_is_not_recorded_is_reported(api: FakeApi) -> None:
    api.objects[OBJECT]["spec"] = {**FIRST, "topology": "Unknown"}

    assert "The present spec is not recorded yet" in run("history", "qwen").stdout


# Undo


def test_an_undo_replaces_the_whole_spec_by_the_one_before_and_keeps_the_settings_of_rollouts(api: FakeApi) -> None:
    result = run("undo", "qwen")

    dry, real = api.writes()
    assert (dry.method, dry.query) == ("PUT", {"fieldManager": FIELD_MANAGER, "dryRun": "All"})
    assert (real.method, real.query, real.body) == ("PUT", {"fieldManager": FIELD_MANAGER}, dry.body)
    assert real.body["metadata"]["resourceVersion"] == "7"
    assert real.body["spec"].pop("rollout") == {"strategy": "Recreate"}
    assert real.body["spec"] == api.objects[RECORDS]["items"][2]["data"]["spec"]
    assert (result.exit_code, result.stderr) == (0, "")
    assert "topology: CoLocated -> Aggregated" in result.stdout


def test_an_undo_of_a_spec_that_the_operator_has_not_recorded_returns_to_the_latest_record(api: FakeApi) -> None:
    api.objects[OBJECT]["spec"] = {**THIRD, "topology": "Unknown"}

    assert "back to record 3" in run("undo", "qwen").stdout


def test_a_dry_run_writes_nothing(api: FakeApi) -> None:
    before = api.objects[OBJECT]

    result = run("undo", "qwen", "--to-revision", "1", "--dry-run")

    assert [sent.query.get("dryRun") for sent in api.writes()] == ["All"]
    assert api.objects[OBJECT] == before
    assert result.stdout.startswith("would set the spec of qwen back to record 1:")


def test_an_undo_to_the_present_spec_writes_nothing(api: FakeApi) -> None:
    result = run("undo", "qwen", "--to-revision", "3")

    assert (result.exit_code, [sent.query.get("dryRun") for sent in api.writes()]) == (0, ["All"])
    assert result.stdout.startswith("nothing to change")


def test_an_undo_of_a_field_that_this_version_does_not_know_is_written(api: FakeApi) -> None:
    api.objects[OBJECT]["spec"]["new"] = 1

    result = run("undo", "qwen", "--to-revision", "3")

    assert "    new: 1 -> (not set)" in result.stdout
    assert "new" not in api.objects[OBJECT]["spec"]


def test_an_undo_to_a_number_that_does_not_exist_names_those_that_do(api: FakeApi) -> None:
    assert refusal("undo", "qwen", "--to-revision", "8") == (1, "error: there is no record 8: there are 1, 2, 3\n")


def test_an_undo_to_a_record_that_never_served_warns(api: FakeApi) -> None:
    api.objects[OBJECT]["spec"] = {**FIRST}

    assert "warning: requests were never answered with record 3" in run("undo", "qwen").stderr


@pytest.mark.parametrize(
    ("metadata", "tool"),
    [
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "apps:epd.dev/EPDDeployment:models/qwen"}}, "Argo CD"),
        ({"managedFields": [{"manager": "kustomize-controller", "operation": "Apply"}]}, "Flux"),
    ],
)
def test_an_undo_of_an_object_from_git_warns_that_the_next_sync_undoes_it(
    api: FakeApi, metadata: dict[str, Any], tool: str
) -> None:
    api.objects[OBJECT] = qwen(**metadata)

    assert run("undo", "qwen").stderr.startswith(f"warning: {tool} applies qwen from Git: its next sync undoes this")


def conflict(_sent: Sent) -> Answer | None:
    return (409, {"message": "the object has been modified"}) if _sent.method == "PUT" else None


def test_an_undo_is_repeated_if_only_the_status_has_changed_meanwhile(api: FakeApi) -> None:
    def refuse_once(sent: Sent) -> Answer | None:
        if sent.method == "PUT" and sent.body["metadata"]["resourceVersion"] == "7":
            api.objects[OBJECT]["metadata"]["resourceVersion"] = "8"
            return conflict(sent)
        return None

    api.refuse = refuse_once

    assert run("undo", "qwen").exit_code == 0
    assert api.objects[OBJECT]["spec"]["topology"] == "Aggregated"


def test_an_undo_stops_if_another_client_has_changed_the_spec_meanwhile(api: FakeApi) -> None:
    def refuse(sent: Sent) -> Answer | None:
        if sent.method == "PUT":
            api.objects[OBJECT]["metadata"]["generation"] = 4
        return conflict(sent)

    api.refuse = refuse

    code, text = refusal("undo", "qwen")
    assert (code, len(api.writes())) == (1, 1)
    assert "another client changed qwen at the same time" in text


def test_an_undo_reports_fields_that_the_api_server_changes(api: FakeApi) -> None:
    def admit(sent: Sent) -> Answer | None:
        if sent.method != "PUT":
            return None
        return 200, {**sent.body, "spec": {**sent.body["spec"], "worker": {"pool": "gb200", "replicas": 1}}}

    api.refuse = admit

    assert "keeps other values than the record has" in run("undo", "qwen").stderr


# Pause and resume


def test_a_pause_writes_one_field_and_a_second_pause_nothing(api: FakeApi) -> None:
    first, second = run("pause", "qwen", "-n", "models"), run("pause", "qwen")

    (patch,) = api.writes()
    assert (patch.method, patch.body) == ("PATCH", {"spec": {"rollout": {"paused": True}}})
    assert first.stdout == "rollouts of qwen are paused now: continue with epdctl rollout resume qwen -n models\n"
    assert second.stdout == "nothing to change: rollouts of qwen are paused already\n"


def test_a_resume_continues_what_is_paused_and_writes_nothing_otherwise(api: FakeApi) -> None:
    assert run("resume", "qwen").stdout == "nothing to change: rollouts of qwen are not paused already\n"
    api.objects[OBJECT]["spec"]["rollout"]["paused"] = True
    assert run("resume", "qwen").exit_code == 0
    assert api.objects[OBJECT]["spec"]["rollout"] == {"strategy": "Recreate", "paused": False}


# Errors


def test_an_object_that_does_not_exist_is_named_with_its_place(api: FakeApi) -> None:
    code, text = refusal("status", "other")

    assert code == 1
    assert text.startswith("error: there is no EPDDeployment other in namespace models (context lab)")


@pytest.mark.parametrize("command", ["status", "history", "undo", "pause"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((401, {"message": "Unauthorized"}), "does not accept the credentials: log in again"),
        (
            (403, {"message": 'epddeployments "qwen" is forbidden: x'}),
            "not allowed with the credentials of context lab",
        ),
        ((404, "404 page not found"), "does not serve EPDDeployments"),
        ((503, {"message": "busy"}), "answered: busy"),
        ((200, "<html>"), "the answer is not a JSON object"),
    ],
)
def test_a_refusal_is_one_message_without_a_traceback(api: FakeApi, command: str, answer: Answer, message: str) -> None:
    api.refuse = lambda _sent: answer

    code, text = refusal(command, "qwen")

    assert code == 1
    assert message in text


def test_missing_rights_on_records_are_reported(api: FakeApi) -> None:
    api.refuse = lambda sent: (403, {"message": "controllerrevisions is forbidden"}) if sent.path == RECORDS else None

    assert "controllerrevisions is forbidden" in refusal("history", "qwen")[1]


def test_an_object_without_records_is_reported(api: FakeApi) -> None:
    api.objects[RECORDS] = {"items": []}

    assert "there are no records of earlier specs of qwen" in refusal("undo", "qwen")[1]


def test_a_cluster_that_cannot_be_reached_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "c", url="http://127.0.0.1:1")))

    code, text = refusal("status", "qwen")

    assert code == 1
    assert text.startswith("error: the API server of context lab cannot be reached")


@pytest.mark.parametrize("name", ["a/b", "Qwen", "..", "a b", "é", "-a"])
def test_a_name_that_is_not_valid_is_not_sent(api: FakeApi, name: str) -> None:
    assert refusal("status", "--", name)[0] == 2
    assert refusal("status", "qwen", f"--namespace={name}")[0] == 2
    assert api.sent == []


# Kubeconfig


def test_the_namespace_option_replaces_that_of_the_context(api: FakeApi) -> None:
    assert "in namespace other" in refusal("status", "qwen", "-n", "other")[1]


def test_of_several_files_the_first_with_a_current_context_decides(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kubeconfig(tmp_path / "1", url=api.url, context="first", namespace="models", current="")
    second = kubeconfig(tmp_path / "2", url=api.url, context="second", namespace="models", current="first")
    third = kubeconfig(tmp_path / "3", url="http://127.0.0.1:1", context="third")
    monkeypatch.setenv("KUBECONFIG", f"/missing:{first}:{second}:{third}")

    assert run("status", "qwen").exit_code == 0
    assert "context third cannot be reached" in refusal("status", "qwen", "--context", "third")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--context", "other"], "has no context other; its contexts: lab"),
        (["--kubeconfig", "/missing"], "there is no kubeconfig at /missing"),
        (["--kubeconfig", "/" + "x" * 5000], "there is no kubeconfig at /x"),
    ],
)
def test_a_wrong_choice_of_cluster_is_reported(api: FakeApi, arguments: list[str], message: str) -> None:
    code, text = refusal("status", "qwen", *arguments)

    assert code == 2
    assert message in text
    assert api.sent == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[1]",
        "a: token-of-x\n  b: [",
        "contexts: 3",
        "current-context: x\ncontexts: [{name: x}]",
        "\x00",
        "a: !!int ''",
    ],
)
def test_a_broken_kubeconfig_is_reported_without_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))

    code, message = refusal("status", "qwen")

    assert code == 2
    assert message.startswith(f"error: the kubeconfig {path} ")


def test_a_pod_without_a_kubeconfig_and_without_credentials_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/missing")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")

    code, text = refusal("status", "qwen")

    assert code == 2
    assert text.startswith("error: there is no kubeconfig, and the pod of this process has no credentials")


def test_commands_that_need_no_cluster_do_not_wait_for_the_import_of_its_client() -> None:
    program = "import sys, epdctl.app; print('kubernetes' in sys.modules)"
    environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "operator/src")}

    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_ages_are_those_of_the_largest_unit() -> None:
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    dates = ("2026-11-30T11:59:01Z", "2026-11-30T11:00:00Z", "2026-11-30T01:00:00Z", "2026-11-01T12:00:00Z", "None")
    assert [age_of(date, now=now) for date in dates] == ["59s", "60m", "11h", "29d", "unknown"]
