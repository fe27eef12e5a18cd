"""Measures the speed and the costs of the operator: ``make bench``.

Starts etcd, kube-apiserver and the operator as plain processes, without controllers and nodes: what is measured is the
operator and the API server, not pods. All of them and this client share the machine. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from support.apiserver import ApiServer
from support.processes import free_ports
from support.specs import raw_spec

ROOT = Path(__file__).parents[2]
OBJECTS = "/apis/epd.dev/v1alpha1/namespaces/default/epddeployments"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CHILDREN_PER_OBJECT = 2
"""Deployments of an Aggregated object: frontend and worker."""
CHANGES = 20
PAUSE_SECONDS = 0.5
"""Between two changes, longer than the operator's pause between two reconciles of one object."""
QUIET_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Results with that many objects; times in seconds, memory in MiB."""

    objects: int
    creation: float
    writes: float
    requests: float
    cpu: float
    memory: float
    change_median: float
    change_worst: float
    quiet_writes: float


class Operator:
    """The operator as a process, and its metrics."""

    def __init__(self, server: ApiServer) -> None:
        self._metrics_port, health_port = free_ports(2)
        command = [sys.executable, "-m", "epd_operator", "--log-level", "WARNING"]
        command += ["--metrics-port", str(self._metrics_port), "--health-port", str(health_port)]
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig), "PYTHONPATH": str(ROOT / "operator" / "src")}
        self._process = subprocess.Popen(command, env=environment)

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()

    def total(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples with these labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics") as page:
            families = list(text_string_to_metric_families(page.read().decode()))
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(s.value for s in samples if labels.items() <= s.labels.items())

    @property
    def is_up(self) -> bool:
        """Whether it answers."""
        try:
            self.total("epd_operator_queue_depth")
        except OSError:
            return False
        return True

    @property
    def cpu_seconds(self) -> float:
        """Processor time since its start."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """Resident memory in MiB."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def wait(holds: Callable[[], bool], *, interval: float, what: str, limit: float = 900.0) -> float:
    """Wait until something holds; returns how long it took."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > limit:
            raise TimeoutError(f"not within {limit} s: {what}")
        time.sleep(interval)
    return time.monotonic() - began


def measure(count: int, *, folder: Path) -> Figures:
    """Create that many objects, change one several times, and then count writes without changes."""
    with ApiServer(folder=folder) as server:
        server.install_crds(ROOT / "crds")
        operator = Operator(server)
        try:
            wait(lambda: operator.is_up, interval=0.1, what="the operator's metrics")
            return _measure(count, server=server, operator=operator)
        finally:
            operator.stop()


def _measure(count: int, *, server: ApiServer, operator: Operator) -> Figures:
    began = time.monotonic()
    for number in range(count):
        body = {"apiVersion": "epd.dev/v1alpha1", "kind": "EPDDeployment", "spec": raw_spec("Aggregated")}
        answer = server.client.create(OBJECTS, {**body, "metadata": {"name": f"n{number}"}})
        assert answer.ok, answer.message

    def complete() -> bool:
        page = server.client.get(f"{DEPLOYMENTS}?limit=1").body
        found = len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))
        return found == CHILDREN_PER_OBJECT * count

    wait(complete, interval=0.02 if count == 1 else 0.2, what="all Deployments")
    creation = time.monotonic() - began
    wait(lambda: operator.total("epd_operator_queue_depth") == 0, interval=0.5, what="an empty queue")
    writes = operator.total("epd_operator_reconcile_writes_total")
    requests = operator.total("epd_operator_api_requests_total")
    cpu, memory = operator.cpu_seconds, operator.memory
    changes = [_change(number, server=server) for number in range(CHANGES)]
    time.sleep(1)
    before = operator.total("epd_operator_reconcile_writes_total")
    time.sleep(QUIET_SECONDS)
    return Figures(
        objects=count,
        creation=creation,
        writes=writes / count,
        requests=requests / count,
        cpu=cpu,
        memory=memory,
        change_median=statistics.median(changes),
        change_worst=max(changes),
        quiet_writes=operator.total("epd_operator_reconcile_writes_total") - before,
    )


def _change(number: int, *, server: ApiServer) -> float:
    """Change the replicas of one object; returns how long its Deployment took to follow."""
    time.sleep(PAUSE_SECONDS)
    replicas = 3 + number % 2
    began = time.monotonic()
    patch = {"spec": {"worker": {"replicas": replicas}}}
    answer = server.client.request("PATCH", f"{OBJECTS}/n0", patch, content_type="application/merge-patch+json")
    assert answer.ok, answer.message
    path = f"{DEPLOYMENTS}/n0-worker"
    wait(lambda: server.client.get(path).body["spec"]["replicas"] == replicas, interval=0.005, what="the change")
    return time.monotonic() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", nargs="*", type=int, default=[1, 100, 1000])
    columns = "objects | all Deployments after | writes / object | requests / object | operator CPU | memory"
    columns += " | one change, median (worst) | writes in 30 s without changes"
    print(f"| {columns} |\n|{'---|' * 8}")
    for count in parser.parse_args().counts:
        with tempfile.TemporaryDirectory() as folder:
            f = measure(count, folder=Path(folder))
        print(
            f"| {f.objects} | {f.creation:.1f} s | {f.writes:.1f} | {f.requests:.1f} | {f.cpu:.1f} s"
            f" | {f.memory:.0f} MiB | {1000 * f.change_median:.0f} ({1000 * f.change_worst:.0f}) ms"
            f" | {f.quiet_writes:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
