"""Known vulnerabilities in lock files: ``python -m support.dependency_audit --program PIP_AUDIT LOCK...``.

There are three answers: CLEAN, VULNERABLE, and NOT AUDITED where the advisory service could not be reached or has no
data. Only VULNERABLE fails; with ``--strict``, NOT AUDITED fails too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

WELL_KNOWN = ("jinja2", "2.4.1")
"""Has had advisories for years: a service without an advisory for it has no data."""


class Answer(StrEnum):
    """The result for a lock file."""

    CLEAN = "CLEAN"
    VULNERABLE = "VULNERABLE"
    NOT_AUDITED = "NOT AUDITED"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The answer for one lock file, with its details."""

    answer: Answer
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """pip-audit, with another advisory service than its own if given."""

    program: Path
    service_url: str = ""

    def audit(self, lock: Path) -> Audit:
        """Audit one lock file. Nothing is resolved or downloaded: the lock has everything, with hashes."""
        command = [self.program, "--requirement", lock, "--disable-pip", "--require-hashes", "--format", "json"]
        command += ["--progress-spinner", "off", "--vulnerability-service", "osv"]
        command += ["--osv-url", self.service_url] if self.service_url else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        try:
            found = json.loads(done.stdout)["dependencies"]
        except (ValueError, KeyError, TypeError):
            last = (done.stderr.strip() or "no answer").splitlines()[-1]
            return Audit(answer=Answer.NOT_AUDITED, details=(last,))
        return _judge(found)

    def obstacle(self) -> str:
        """Why no answer can be trusted; empty where the service reports a well-known vulnerability."""
        name, version = WELL_KNOWN
        with tempfile.TemporaryDirectory() as folder:
            lock = Path(folder) / "well-known.lock"
            lock.write_text(f"{name}=={version} --hash=sha256:{'0' * 64}\n")
            known = self.audit(lock)
        if known.answer is Answer.VULNERABLE:
            return ""
        return next(iter(known.details), f"the advisory service has no advisory for {name} {version}")


def _judge(dependencies: Sequence[dict[str, Any]]) -> Audit:
    vulnerable = tuple(
        f"{d['name']} {d['version']}: {v['id']}, fixed in {', '.join(v.get('fix_versions') or ['no version'])}"
        for d in dependencies
        for v in d.get("vulns", ())
    )
    skipped = tuple(f"{d['name']}: {d['skip_reason']}" for d in dependencies if "skip_reason" in d)
    if vulnerable:
        return Audit(answer=Answer.VULNERABLE, details=vulnerable + skipped)
    if skipped or not dependencies:
        return Audit(answer=Answer.NOT_AUDITED, details=skipped or ("it has no package for this machine",))
    return Audit(answer=Answer.CLEAN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Audit all files, print the answers, return the exit status."""
    parser = argparse.ArgumentParser(prog="dependency_audit", description=__doc__)
    parser.add_argument("locks", nargs="+", type=Path)
    parser.add_argument("--program", type=Path, required=True, help="pip-audit")
    parser.add_argument("--service-url", default="", help="advisory service with OSV's protocol")
    parser.add_argument("--strict", action="store_true", help="fail where nothing could be audited, too")
    given = parser.parse_args(arguments)
    auditor = Auditor(program=given.program, service_url=given.service_url)
    obstacle = auditor.obstacle()
    answers = set()
    for lock in given.locks:
        unknown = Audit(answer=Answer.NOT_AUDITED, details=(obstacle,))
        found = unknown if obstacle else auditor.audit(lock)
        answers.add(found.answer)
        print(f"{found.answer}: {lock}", *found.details, sep="\n  ")
    if Answer.NOT_AUDITED in answers:
        print("WARNING: not all files were audited. Run `make audit` where the advisory service can be reached.")
    if Answer.VULNERABLE in answers:
        return 1
    return 2 if given.strict and Answer.NOT_AUDITED in answers else 0


if __name__ == "__main__":
    sys.exit(main())
