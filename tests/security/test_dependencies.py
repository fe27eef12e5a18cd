"""Third-party dependencies are pinned, by hash where possible, and a failed audit is not reported as clean."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.dependency_audit import WELL_KNOWN, main

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
FILES = [ROOT / name for name in TRACKED] or [path for path in ROOT.rglob("*") if ".venv" not in path.parts]
LOCKS = sorted(path for path in FILES if path.suffix == ".lock")
CONTAINERFILES = sorted(path for path in FILES if path.name.startswith("Containerfile"))
GO_MODULES = sorted(path for path in FILES if path.name == "go.mod")


def of(paths: list[Path]) -> dict[str, Any]:
    return {"argvalues": paths, "ids": [str(path.relative_to(ROOT)) for path in paths]}


def test_the_files_to_check_are_found() -> None:
    assert len(LOCKS) >= 6
    assert len(CONTAINERFILES) >= 3
    assert len(GO_MODULES) >= 5


@pytest.mark.parametrize("lock", **of(LOCKS))
def test_every_locked_package_has_one_version_and_hashes(lock: Path) -> None:
    entries = re.split(r"\n(?=\S)", lock.read_text().replace("\\\n", " "))
    packages = [entry for entry in entries if not entry.startswith("#")]
    assert packages
    for package in packages:
        assert re.match(r"[A-Za-z0-9._-]+(\[[^]]*\])?(==\S+| @ \S+)", package), package
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", package), package


@pytest.mark.parametrize("file", **of(CONTAINERFILES))
def test_every_base_image_has_a_tag_and_installs_only_with_hashes(file: Path) -> None:
    text = file.read_text()
    bases = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    assert len(bases) == 1
    assert re.fullmatch(r"\S+/\S+:(?!latest)[\w.-]+(@sha256:[0-9a-f]{64})?", bases[0]), bases[0]
    assert {line.split()[1] for line in text.splitlines() if line.startswith("FROM ")} == {"${BASE}"}
    for command in re.findall(r"pip install[^&]*", text.replace("\\\n", " ")):
        assert "--require-hashes" in command
    assert not re.search(r"curl|wget|ADD https?:", text)


@pytest.mark.parametrize("module", **of(GO_MODULES))
def test_every_go_module_has_the_checksums_of_its_requirements(module: Path) -> None:
    needs = re.findall(r"^\s*(?:require )?([\w./~-]+\.[\w./~-]+) (v\S+)", module.read_text(), re.MULTILINE)
    sums = module.with_name("go.sum")
    recorded = sums.read_text() if sums.exists() else ""
    missing = [name for name, version in needs if f"{name} {version}" not in recorded]
    replaced = re.findall(r"^\s*(?:replace )?(\S+)(?: v\S+)? => ", module.read_text(), re.MULTILINE)
    assert [name for name in missing if name not in replaced] == []


VULNERABILITY = {
    "id": "PYSEC-2026-1", "summary": "bad", "aliases": [],
    "affected": [{"package": {"name": "x", "ecosystem": "PyPI"}, "ranges": [{"type": "ECOSYSTEM", "events": []}]}],
}  # fmt: skip
LOCK = f"aiohttp==3.14.5 --hash=sha256:{'0' * 64}\nkopf==1.2.3 --hash=sha256:{'1' * 64}\n"


@pytest.fixture(scope="session")
def pip_audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The locked pip-audit: of `make audit`, or installed here."""
    made = ROOT / ".venv" / "audit" / "bin" / "pip-audit"
    if made.exists():
        return made
    folder = tmp_path_factory.mktemp("audit")
    venv.create(folder, with_pip=True)
    command = [folder / "bin" / "pip", "install", "--quiet", "--require-hashes", "-r", ROOT / "tests" / "audit.lock"]
    subprocess.run(command, check=True)
    return folder / "bin" / "pip-audit"


@contextmanager
def advisories(vulnerable: set[str], *, status: int = 200) -> Iterator[str]:
    """An advisory service that reports vulnerabilities of these packages."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            known = query["package"]["name"] in vulnerable
            body = json.dumps({"vulns": [VULNERABILITY]} if known else {}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1/query"
    server.shutdown()
    thread.join()
    server.server_close()


def audit(pip_audit: Path, folder: Path, url: str, *arguments: str) -> int:
    lock = folder / "some.lock"
    lock.write_text(LOCK)
    return main([str(lock), f"--program={pip_audit}", f"--service-url={url}", *arguments])


def test_a_known_vulnerability_fails_and_is_named(pip_audit: Path, tmp_path: Path, capsys) -> None:
    with advisories({WELL_KNOWN[0], "kopf"}) as url:
        assert audit(pip_audit, tmp_path, url) == 1
    output = capsys.readouterr().out
    assert output.startswith("VULNERABLE: ")
    assert "kopf 1.2.3: PYSEC-2026-1" in output
    assert "aiohttp" not in output


def test_packages_without_a_known_vulnerability_are_clean(pip_audit: Path, tmp_path: Path, capsys) -> None:
    with advisories({WELL_KNOWN[0]}) as url:
        assert audit(pip_audit, tmp_path, url, "--strict") == 0
    assert capsys.readouterr().out.startswith("CLEAN: ")


@pytest.mark.parametrize("case", ["nobody listens", "it knows nothing", "it is broken"])
def test_an_audit_without_answers_is_reported_as_a_warning_and_fails_only_in_strict_mode(
    pip_audit: Path, tmp_path: Path, capsys, case: str
) -> None:
    with advisories(set(), status=500 if case == "it is broken" else 200) as url:
        asked = "http://127.0.0.1:1/v1/query" if case == "nobody listens" else url
        assert audit(pip_audit, tmp_path, asked) == 0
        output = capsys.readouterr().out
        assert output.startswith("NOT AUDITED: ")
        assert "WARNING" in output
        assert "CLEAN" not in output
        assert audit(pip_audit, tmp_path, asked, "--strict") == 2
