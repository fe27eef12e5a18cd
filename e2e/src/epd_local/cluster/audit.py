"""The audit log of the API server: requests of ServiceAccounts, without their contents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_MEGABYTES = 32
MAX_OLD_FILES = 3
"""The log is rotated at this size, with this number of older files."""


def policy() -> dict[str, Any]:
    """Return the audit policy: metadata of the requests of ServiceAccounts outside kube-system."""
    accounts = {"level": "Metadata", "userGroups": ["system:serviceaccounts"]}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "rules": [
            {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
            # A watch may end after the test that reads the log: its start is recorded too.
            {**accounts, "verbs": ["watch"], "omitStages": ["RequestReceived"]},
            {**accounts, "omitStages": ["RequestReceived", "ResponseStarted"]},
            {"level": "None"},
        ],
    }


def write_policy(path: Path) -> None:
    """Write the policy file for `flags`."""
    path.write_text(json.dumps(policy(), indent=2) + "\n")


def flags(*, policy_file: Path, log: Path) -> list[str]:
    """Return the API server's flags."""
    return [
        f"--audit-policy-file={policy_file}", f"--audit-log-path={log}",
        f"--audit-log-maxsize={MAX_MEGABYTES}", f"--audit-log-maxbackup={MAX_OLD_FILES}",
    ]  # fmt: skip


def read(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of the log and of its older files, oldest first."""
    older = sorted(log.parent.glob(f"{log.stem}-*{log.suffix}"))
    for path in [*older, log]:
        with path.open(encoding="utf-8") as lines:
            # The last line may be incomplete.
            yield from (json.loads(line) for line in lines if line.endswith("\n"))
