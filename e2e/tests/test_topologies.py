"""Each topology answers through its own stages, with the same result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from stories import eventually, operator_metric

from epd_local import pictures
from epd_local.demo.chat import Answer, Endpoint
from epd_local.demo.deployment import TOPOLOGIES, Deployment
from epd_local.demo.installation import Installation
from epd_local.demo.proof import SYSTEM_PORT, TELEMETRY_PORT, read_path, worker_ports
from epd_local.errors import CommandFailedError

TOLERANCE = 0.05
"""Largest difference of a log-probability between topologies. They cannot be equal: Dynamo's encoder takes the model's
own 16-bit type whatever --dtype says. Measured: at most 0.012 for the same picture, at least 0.64 for another."""

RECONCILES = "epd_operator_reconcile_duration_seconds_count"
WRITES = "epd_operator_reconcile_writes_total"

ENGINE_PORT = 9190
"""Dynamo's system server of the first process of a pod, which accepts commands from every client."""
COMMANDS = ("/engine/control/sleep", "/engine/update_weights_from_disk", "/engine/abort_request", "/health", "/")

SUBJECTS = [
    pictures.Subject(colour=colour, shape=shape, seed=pictures.UNSEEN + 40 + number)
    for number, (colour, shape) in enumerate([("red", "circle"), ("blue", "square"), ("green", "triangle")])
]


@dataclass(frozen=True)
class Served:
    """A topology with its running deployment."""

    topology: str
    deployment: Deployment


@pytest.fixture(scope="module", params=TOPOLOGIES)
def served(request: pytest.FixtureRequest, start: Callable[[str], Deployment]) -> Served:
    return Served(topology=request.param, deployment=start(request.param))


@pytest.fixture(scope="module")
def aggregated_answers() -> dict[str, Answer]:
    """The answers of Aggregated, which runs first, about each picture."""
    return {}


def ask(endpoint: Endpoint, subject: pictures.Subject) -> Answer:
    return endpoint.ask(pictures.QUESTION, image=pictures.data_url(subject))


def test_a_picture_gets_the_right_answer(served: Served, endpoint: Endpoint) -> None:
    assert [ask(endpoint, subject).text for subject in SUBJECTS] == [subject.answer for subject in SUBJECTS]


def test_pictures_use_an_encoder_and_nixl_only_in_topologies_with_encoders(served: Served, endpoint: Endpoint) -> None:
    before = read_path(served.deployment)
    # A picture that was never sent, so it is not cached.
    ask(endpoint, pictures.Subject(colour="orange", shape="square", seed=pictures.UNSEEN + int(time.time())))
    path = read_path(served.deployment).since(before)
    assert path.worker_requests == 1
    if served.topology == "aggregated":
        assert (path.encoder_requests, path.embedding_bytes) == (0, 0)
    else:
        assert path.encoder_requests == 1
        eventually(
            lambda: read_path(served.deployment).since(before).embedding_bytes > 0,
            what=lambda: "NIXL reports no bytes",
        )


def test_text_uses_no_encoder(served: Served, endpoint: Endpoint) -> None:
    before = read_path(served.deployment)
    assert endpoint.ask("Say hello.").text
    path = read_path(served.deployment).since(before)
    assert (path.worker_requests, path.encoder_requests, path.embedding_bytes) == (1, 0, 0)


def test_other_pods_can_read_metrics_and_send_no_commands(served: Served, endpoint: Endpoint) -> None:
    deployment = served.deployment

    def refusal(pod: str, *, port: int, path: str) -> str:
        """The answer to a POST to a pod, from the API server, which has no more access than other pods."""
        url = f"/api/v1/namespaces/{deployment.namespace}/pods/{pod}:{port}/proxy{path}"
        with pytest.raises(CommandFailedError) as refused:
            deployment.kubectl.run("create", "--raw", url, "-f", "-", stdin="{}")
        return str(refused.value)

    pods = list(worker_ports(deployment))
    assert pods
    for pod, ports in pods:
        for port in ports:
            assert "dynamo_component_requests_total" in deployment.metrics(pod, port=port)
            assert "does not allow this method" in refusal(pod, port=port, path="/metrics")
            for path in COMMANDS:
                assert "could not find the requested resource" in refusal(pod, port=port, path=path)
                assert refusal(pod, port=TELEMETRY_PORT + port - SYSTEM_PORT, path=path)
            hidden = ENGINE_PORT + port - SYSTEM_PORT
            assert "connection refused" in refusal(pod, port=hidden, path=COMMANDS[0])
    for frontend in deployment.pods("frontend"):
        path = "/busy_threshold"
        found = refusal(frontend["metadata"]["name"], port=8000, path=path)
        assert "could not find the requested resource" in found
    assert endpoint.ask("Say hello.").text


def test_log_probabilities_equal_those_of_aggregated_and_differ_for_another_picture(
    served: Served, endpoint: Endpoint, aggregated_answers: dict[str, Answer]
) -> None:
    answers = {subject.answer: ask(endpoint, subject) for subject in SUBJECTS}
    if served.topology == "aggregated":
        aggregated_answers.update(answers)
    assert max(answers[name].distance(aggregated_answers[name]) for name in answers) < TOLERANCE
    first = SUBJECTS[0]
    another = ask(endpoint, pictures.Subject(colour=first.colour, shape=first.shape, seed=first.seed + 1000))
    assert another.distance(answers[first.answer]) > 5 * TOLERANCE


def test_nothing_is_written_when_all_objects_are_as_desired(served: Served, installation: Installation) -> None:
    deployment = served.deployment

    def settled_state() -> tuple[str, float]:
        found = deployment.get() or {}
        return found["metadata"]["resourceVersion"], operator_metric(installation, WRITES)

    before, reconciles = settled_state(), operator_metric(installation, RECONCILES)
    # An event that causes a reconcile: a pod is changed.
    pod = deployment.pods("frontend")[0]["metadata"]["name"]
    installation.kubectl.run("annotate", "pod", pod, "--overwrite", f"touched={time.time()}")
    eventually(
        lambda: operator_metric(installation, RECONCILES) > reconciles,
        what=lambda: "the operator did not reconcile after an event",
    )
    assert settled_state() == before
