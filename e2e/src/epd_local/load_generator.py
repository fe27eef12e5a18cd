"""NVIDIA's load generator aiperf against an endpoint on this machine, in an environment of its own."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from epd_local.demo.chat import Endpoint
from epd_local.locks import locked
from epd_local.progress import call, step
from epd_local.worker_env import REPOSITORY, base_python, cache_root, find_uv

LOCK = REPOSITORY / "e2e" / "aiperf.lock"
TOKENIZER = REPOSITORY / "e2e" / "tiny_model" / "models" / "epd-tiny-vl"


@dataclass(frozen=True, kw_only=True)
class Load:
    """Requests to send.

    Attributes:
        requests: how many in all.
        concurrency: how many at a time.
        output_tokens: length of each answer; the model may not end earlier.
        image_pixels: side of the picture that goes with each request; 0 for text only.
    """

    requests: int
    concurrency: int
    output_tokens: int
    image_pixels: int = 0


@dataclass(frozen=True)
class LoadReport:
    """How many requests were completed, and the errors of the others."""

    completed: int
    errors: tuple[str, ...]


def ensure() -> Path:
    """Return the program aiperf; installs it into the cache if necessary."""
    key = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    home = cache_root() / "aiperf" / key
    program = home / "bin" / "aiperf"
    with locked(home.parent / f".{key}.lock", waiting_for="installing aiperf"):
        if not program.exists():
            shutil.rmtree(home, ignore_errors=True)
            uv = find_uv()
            with step("installing aiperf", usually="15 s"):
                call(
                    [uv, "venv", "--quiet", "--python", base_python(), home], what="creating the environment of aiperf"
                )
                words = [uv, "pip", "install", "--quiet", "--python", home / "bin" / "python", "--require-hashes"]
                call([*words, "-r", LOCK], what="installing aiperf")
    return program


def start(endpoint: Endpoint, load: Load, *, folder: Path) -> subprocess.Popen[bytes]:
    """Begin to send requests; aiperf writes its report into the folder at the end."""
    words = [
        str(ensure()), "profile", "--ui", "none", "--model", endpoint.model, "--url", endpoint.url,
        "--endpoint-type", "chat", "--streaming", "--tokenizer", str(TOKENIZER), "--artifact-dir", str(folder),
        "--concurrency", str(load.concurrency), "--request-count", str(load.requests),
        "--synthetic-input-tokens-mean", "20", "--output-tokens-mean", str(load.output_tokens),
        "--extra-inputs", "ignore_eos:true",
    ]  # fmt: skip
    if load.image_pixels:
        size = str(load.image_pixels)
        words += ["--image-width-mean", size, "--image-height-mean", size, "--image-batch-size", "1"]
    with tempfile.TemporaryFile() as unread:
        return subprocess.Popen(words, stdout=unread, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def report(folder: Path) -> LoadReport:
    """Read the report of aiperf.

    Raises:
        FileNotFoundError: it ended without a report.
    """
    written = json.loads((folder / "profile_export_aiperf.json").read_text())
    completed = int(written["completed_request_count"]["avg"]) if "completed_request_count" in written else 0
    return LoadReport(completed=completed, errors=tuple(json.dumps(error) for error in written["error_summary"]))
