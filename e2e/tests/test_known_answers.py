"""Workers that answer, but wrongly, are found: real Dynamo and vLLM as processes of this machine, without a cluster.

One worker is right, one has loaded a damaged checkpoint, and one shrinks pictures too much, as with a wrong processor
setting. Each has a frontend of its own, as in a revision: a frontend of Dynamo 1.6.1 rejects a worker whose model card,
with the processor settings and the path of the model, differs from that of its first worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from stories import eventually

from epd_local import worker_env
from epd_local.demo.deployment import example
from epd_local.locations import REPOSITORY
from epd_operator.api.v1alpha1.topology import StageName
from epd_operator.api.v1alpha1.verification import Verification
from epd_operator.loads.targets import Target
from epd_operator.plan.observation import Findings, Verdict
from epd_operator.verification.ask import ask
from epd_operator.verification.candidate import Asked, Candidate, FrontendAddress
from epd_operator.verification.requests import Question, known_questions
from epd_operator.verification.survey import Subject, survey

MODEL = REPOSITORY / "e2e" / "tiny_model" / "models" / "epd-tiny-vl"
SPEC = yaml.safe_load(example("verified").read_text())["spec"]
SHRINK = json.dumps({"size": {"shortest_edge": 1024, "longest_edge": 4096}})
NAME = SPEC["model"]["servedName"]
QUESTIONS = known_questions(Verification.model_validate(SPEC["verification"]))


def damage(model: Path) -> None:
    """Set all weights of the vision encoder to 0, as if the file had been copied incompletely.

    https://huggingface.co/docs/safetensors describes the format: the length of the header, the header in JSON, data.
    """
    path = model / "model.safetensors"
    file = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(file[:8], "little")
    for name, tensor in json.loads(file[8:start]).items():
        if "visual" in name:
            begin, end = (start + offset for offset in tensor["data_offsets"])
            file[begin:end] = bytes(end - begin)
    path.write_bytes(file)


def free_ports(count: int) -> list[int]:
    """Free ports of this machine. Dynamo reads the port of a system server as a signed number of 16 bits."""
    found: list[int] = []
    for port in range(24000, 2**15):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("no free ports")


@contextmanager
def process(*words: str, log: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """A process of Dynamo, ended with the block."""
    packages = worker_env.ensure()
    whole = {
        **os.environ,
        **worker_env.LEAN_ENVIRONMENT,
        "PYTHONPATH": str(packages),
        "LD_LIBRARY_PATH": str(packages / worker_env.NIXL_LIBRARIES),
        "NIXL_PLUGIN_DIR": str(packages / worker_env.NIXL_PLUGINS),
        **environment,
    }
    with log.open("wb") as output:
        started = subprocess.Popen(
            [str(worker_env.base_python()), "-m", *words],
            env=whole,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield
        finally:
            started.kill()
            started.wait()


@pytest.fixture(scope="module")
def revisions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Asked]]:
    """Three revisions with a frontend and a worker each: ``right``, ``damaged`` and ``shrunk``."""
    folder = tmp_path_factory.mktemp("known-answers")
    damaged = folder / "model"
    shutil.copytree(MODEL, damaged)
    damage(damaged)
    models = {"right": (MODEL, ()), "damaged": (damaged, ()), "shrunk": (MODEL, ("--mm-processor-kwargs", SHRINK))}
    ports = iter(free_ports(2 * len(models)))
    found = {}
    with ExitStack() as stack:
        for name, (model, args) in models.items():
            port, system_port = next(ports), next(ports)
            environment = {
                "DYN_NAMESPACE": name,
                "DYN_DISCOVERY_BACKEND": "file",
                "DYN_FILE_KV": str(folder / f"discovery-{name}"),
                "DYN_REQUEST_PLANE": "tcp",
                "DYN_EVENT_PLANE": "zmq",
                "DYN_TCP_RPC_HOST": "127.0.0.1",
                "DYN_SYSTEM_HOST": "127.0.0.1",
                "HF_HUB_OFFLINE": "1",
                "VLLM_TARGET_DEVICE": "cpu",
            }
            worker = ["dynamo.vllm", "--model", str(model), "--served-model-name", NAME, "--enable-multimodal"]
            worker += [*SPEC["runtime"]["args"], *args]
            frontend = ["dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port)]
            stack.enter_context(process(*frontend, log=folder / f"{name}-frontend.log", environment=environment))
            environment = {**environment, "DYN_SYSTEM_PORT": str(system_port)}
            stack.enter_context(process(*worker, log=folder / f"{name}.log", environment=environment))
            found[name] = asked(name, port=port, system_port=system_port)
        for name, revision in found.items():
            models_url = revision.frontends[0].url.replace("chat/completions", "models")
            log = folder / f"{name}.log"
            eventually(lambda url=models_url: NAME in page(url), what=lambda log=log: log.read_text()[-3000:])
        yield found


def asked(name: str, *, port: int, system_port: int) -> Asked:
    """A revision of processes on this machine."""
    worker = Target(pod=name, stage=StageName.WORKER, ready=True, url=f"http://127.0.0.1:{system_port}/metrics")
    frontend = FrontendAddress(pod="frontend", url=f"http://127.0.0.1:{port}/v1/chat/completions")
    return Asked(revision=name, model=NAME, frontends=(frontend,), workers=(worker,))


def page(url: str) -> str:
    """The text at a URL; empty if nobody answers yet."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


async def verdict_on(name: str, revisions: Mapping[str, Asked], *, asked: tuple[Question, ...] = QUESTIONS) -> Verdict:
    """The verdict on a new revision, while the right one serves."""
    candidate = Candidate(asked=revisions[name], needs_pictures=True, questions=asked, reference=revisions["right"])
    return await ask(candidate)


async def test_a_new_revision_that_answers_right_gets_the_requests(revisions: dict[str, Asked]) -> None:
    verdict = await verdict_on("right", revisions)
    assert verdict.passed, verdict.message
    assert "2 with known answers as expected" in verdict.message


async def test_a_damaged_checkpoint_gets_no_requests_and_question_expected_and_got_are_shown(
    revisions: dict[str, Asked],
) -> None:
    verdict = await verdict_on("damaged", revisions)
    assert not verdict.passed
    assert '"What is in the picture?" to pod damaged: expected the text "' in verdict.message
    assert ', got "' in verdict.message


async def test_a_wrong_processor_setting_is_found_by_its_probabilities_alone(revisions: dict[str, Asked]) -> None:
    compared = tuple(replace(q, expect=q.expect and q.expect.model_copy(update={"text": None})) for q in QUESTIONS)
    assert (await verdict_on("right", revisions, asked=compared)).passed
    verdict = await verdict_on("shrunk", revisions, asked=compared)
    assert not verdict.passed
    assert "the answer of the revision that serves" in verdict.message


async def test_a_worker_that_serves_with_a_damaged_checkpoint_is_named(revisions: dict[str, Asked]) -> None:
    found = {
        name: await survey(Subject(asked=revisions[name], questions=QUESTIONS, interval=60))
        for name in ("right", "damaged")
    }
    assert found["right"] == Findings(revision="right", right=("right",))
    assert list(found["damaged"].wrong) == ["damaged"]
