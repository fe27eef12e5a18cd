"""The audit log of the local cluster."""

from __future__ import annotations

import json

from epd_local.cluster import audit
from epd_local.cluster.control_plane import api_server, audit_log_of, audit_policy_of


def test_the_audit_log_is_a_file_of_bounded_size_in_the_state_folder(config):
    command = api_server(config)
    assert f"--audit-log-path={audit_log_of(config.state)}" in command
    assert f"--audit-policy-file={audit_policy_of(config.state)}" in command
    assert config.state in audit_log_of(config.state).parents
    given = dict(flag.split("=", 1) for flag in command if flag.startswith("--audit-log-max"))
    # Zero would mean no limit.
    assert all(int(value) > 0 for value in given.values())
    assert set(given) == {"--audit-log-maxsize", "--audit-log-maxbackup"}


def test_events_are_read_oldest_first_and_an_incomplete_line_is_not_read(tmp_path):
    log = tmp_path / "audit.log"
    (tmp_path / "audit-2026-11-29T10-00-00.000.log").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "audit-2026-11-29T11-00-00.000.log").write_text('{"n": 3}\n')
    (tmp_path / "other.log").write_text("not JSON\n")
    log.write_text('{"n": 4}\n{"n": 5')
    assert [event["n"] for event in audit.read(log)] == [1, 2, 3, 4]


def test_contents_of_objects_are_never_recorded(tmp_path):
    path = tmp_path / "policy.json"
    audit.write_policy(path)
    assert {rule["level"] for rule in json.loads(path.read_text())["rules"]} == {"None", "Metadata"}
