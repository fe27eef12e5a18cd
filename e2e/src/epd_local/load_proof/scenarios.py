"""What happens under load: planned changes, and failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from epd_local.image.small import WORKER_IMAGE
from epd_local.load_proof.bench import Bench, Layout

ONE_EACH = Layout(topology="disaggregated")
TWO_PD_MIGRATING = Layout(topology="disaggregated", replicas=(("pd", 2),), migration_limit=3)
TWO_ENCODERS = Layout(topology="disaggregated", replicas=(("encoder", 2),))
TWO_PD = Layout(topology="disaggregated", replicas=(("pd", 2),))
TWO_FRONTENDS = Layout(topology="disaggregated", replicas=(("frontend", 2),))
AGGREGATED = Layout(topology="aggregated")
COLOCATED = Layout(topology="colocated")

OTHER_IMAGE = WORKER_IMAGE.rpartition(":")[0] + ":next"
"""A second tag of the worker image: another image for Kubernetes and the operator, the same content."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing that happens under load.

    Attributes:
        name: for the command line.
        title: for the table.
        before: what is served at its start.
        act: does it, and returns when it is over.
        is_planned: whether no request may fail. Otherwise a process is killed, and its requests are lost.
    """

    name: str
    title: str
    before: Layout
    act: Callable[[Bench], None]
    is_planned: bool = True


def _encoder(bench: Bench) -> None:
    cpu = bench.spec()["encoder"]["resources"]["requests"]["cpu"]
    bench.patch({"encoder": {"resources": {"requests": {"cpu": "900m" if str(cpu) == "1" else "1"}}}})
    bench.settle()


def _frontend(bench: Bench) -> None:
    cpu = bench.spec()["frontend"]["resources"]["requests"]["cpu"]
    bench.patch({"frontend": {"resources": {"requests": {"cpu": "200m" if cpu == "250m" else "250m"}}}})
    bench.settle()


def _pd_arguments(bench: Bench) -> None:
    sequences = "7" if (bench.spec()["pd"].get("args") or [""])[-1] != "7" else "6"
    bench.patch({"pd": {"args": ["--max-num-seqs", sequences]}})
    bench.settle()


def _image(bench: Bench) -> None:
    image = bench.spec()["runtime"]["image"]
    bench.patch({"runtime": {"image": OTHER_IMAGE if image == WORKER_IMAGE else WORKER_IMAGE}})
    bench.settle()


def _scale_down(bench: Bench) -> None:
    bench.patch({"pd": {"replicas": 1}})
    bench.wait(lambda: len(bench.pods("pd")) == 1, what="the end of a PD pod")
    bench.settle()


def _to(layout: Layout) -> Callable[[Bench], None]:
    def act(bench: Bench) -> None:
        bench.replace(layout)
        bench.settle()

    return act


def _change_of_mind(bench: Bench) -> None:
    bench.replace(AGGREGATED)
    bench.wait(lambda: bench.pods("worker"), what="a pod of the new revision")
    bench.replace(ONE_EACH)
    bench.settle()


def _operator_restart(bench: Bench) -> None:
    bench.replace(AGGREGATED)
    bench.wait(lambda: bench.pods("worker"), what="a pod of the new revision")
    bench.kill_operator()
    bench.settle()


def _drain(bench: Bench) -> None:
    bench.drain(bench.pod("pd")["spec"]["nodeName"])


def _kill(component: str) -> Callable[[Bench], None]:
    return lambda bench: bench.kill(component)


SCENARIOS = (
    Scenario(name="encoder", title="encoder changed (resources), in place", before=ONE_EACH, act=_encoder),
    Scenario(name="frontend", title="frontend changed (resources), in place", before=ONE_EACH, act=_frontend),
    Scenario(name="pd-arguments", title="arguments of PD changed, in place", before=ONE_EACH, act=_pd_arguments),
    Scenario(name="image", title="image changed, new revision", before=ONE_EACH, act=_image),
    Scenario(
        name="change-of-mind", title="to Aggregated, and back before it is ready", before=ONE_EACH, act=_change_of_mind
    ),
    Scenario(
        name="disaggregated-to-aggregated", title="Disaggregated to Aggregated", before=ONE_EACH, act=_to(AGGREGATED)
    ),
    Scenario(name="aggregated-to-colocated", title="Aggregated to CoLocated", before=AGGREGATED, act=_to(COLOCATED)),
    Scenario(
        name="colocated-to-disaggregated", title="CoLocated to Disaggregated", before=COLOCATED, act=_to(ONE_EACH)
    ),
    Scenario(
        name="disaggregated-to-colocated", title="Disaggregated to CoLocated", before=ONE_EACH, act=_to(COLOCATED)
    ),
    Scenario(name="colocated-to-aggregated", title="CoLocated to Aggregated", before=COLOCATED, act=_to(AGGREGATED)),
    Scenario(
        name="aggregated-to-disaggregated", title="Aggregated to Disaggregated", before=AGGREGATED, act=_to(ONE_EACH)
    ),
    Scenario(
        name="operator-restart",
        title="to Aggregated, the operator killed in the middle",
        before=ONE_EACH,
        act=_operator_restart,
    ),
    Scenario(name="node-drain", title="`kubectl drain` of a node with a PD pod", before=TWO_PD, act=_drain),
    Scenario(name="killed-pd", title="PD process killed, one of two", before=TWO_PD, act=_kill("pd"), is_planned=False),
    Scenario(
        name="killed-pd-migration",
        title="the same, with migrationLimit 3",
        before=TWO_PD_MIGRATING,
        act=_kill("pd"),
        is_planned=False,
    ),
    Scenario(name="scale-down", title="PD scaled from 2 to 1", before=TWO_PD, act=_scale_down),
    Scenario(
        name="killed-encoder",
        title="encoder process killed, one of two",
        before=TWO_ENCODERS,
        act=_kill("encoder"),
        is_planned=False,
    ),
    Scenario(
        name="killed-frontend",
        title="frontend process killed, one of two",
        before=TWO_FRONTENDS,
        act=_kill("frontend"),
        is_planned=False,
    ),
)
"""In an order in which most of them begin with what the one before has left."""
