"""The operator as a process with the arguments, the ServiceAccount and the rights that the chart gives it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.apiserver import ApiServer
from support.processes import Processes, free_ports

ROOT = Path(__file__).parents[2]
TOKEN_SECONDS = 3600
_PLURALS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A running operator.

    Attributes:
        namespace: where it is installed.
        account: its ServiceAccount.
        log: its output.
        metrics_url: address of its own metrics.
        require_alive: raises with the end of its log if it has ended.
    """

    namespace: str
    account: str
    log: Path
    metrics_url: str
    require_alive: Callable[[], None]


def of_rbac(objects: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """ServiceAccounts, roles and bindings."""
    return [dict(o) for o in objects if o["kind"] in _PLURALS]


def apply_rbac(server: ApiServer, objects: Iterable[Mapping[str, Any]]) -> None:
    """Apply ServiceAccounts, roles and bindings of a rendered chart; nothing else of it."""
    for body in of_rbac(objects):
        path = _PLURALS[body["kind"]].format(body["metadata"].get("namespace"))
        answer = server.client.apply(f"{path}/{body['metadata']['name']}", body)
        if not answer.ok:
            raise RuntimeError(f"{body['kind']} {body['metadata']['name']}: {answer.message}")


def token_of(server: ApiServer, *, namespace: str, account: str) -> str:
    """A token of a ServiceAccount."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["spec"] = {"expirationSeconds": TOKEN_SECONDS}
    answer = server.client.create(path, body)
    if not answer.ok:
        raise RuntimeError(answer.message)
    return str(answer.body["status"]["token"])


@contextmanager
def running(
    server: ApiServer, *, folder: Path, chart: Iterable[Mapping[str, Any]], arguments: Iterable[str] = ()
) -> Iterator[Operator]:
    """The operator with the arguments of the chart's Deployment, until the block ends."""
    (deployment,) = [o for o in chart if o["kind"] == "Deployment"]
    namespace = deployment["metadata"]["namespace"]
    pod = deployment["spec"]["template"]["spec"]
    account, given = pod["serviceAccountName"], list(pod["containers"][0]["args"])
    metrics, health = free_ports(2)
    folder.mkdir(parents=True, exist_ok=True)
    kubeconfig = _kubeconfig(server, token=token_of(server, namespace=namespace, account=account))
    (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
    if "--leader-election" in given:
        # In a pod, the operator reads it from a file that does not exist here.
        given.append(f"--lease-namespace={namespace}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    environment |= {"KUBECONFIG": str(folder / "kubeconfig"), "PYTHONPATH": str(ROOT / "operator" / "src")}
    processes = Processes(folder)
    ports = [f"--metrics-port={metrics}", f"--health-port={health}"]
    command = [sys.executable, "-m", "epd_operator", *given, *ports, *arguments]
    try:
        processes.start("operator", ["env", *(f"{k}={v}" for k, v in environment.items()), *command])
        yield Operator(
            namespace=namespace,
            account=account,
            log=folder / "operator.log",
            metrics_url=f"http://127.0.0.1:{metrics}/metrics",
            require_alive=processes.require_alive,
        )
        processes.require_alive()
    finally:
        processes.stop()


def _kubeconfig(server: ApiServer, *, token: str) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    return config
