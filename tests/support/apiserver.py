"""A real kube-apiserver with its etcd, as plain processes on loopback ports: no root, no nodes, a few seconds.

::

    with ApiServer(folder=tmp_path, with_controllers=True) as server:
        server.install_crds(Path("crds"))
        server.client.create("/api/v1/namespaces", {"metadata": {"name": "n"}})

With controllers, Deployments create ReplicaSets and pods (which stay Pending), namespaces get their ServiceAccount
and the garbage collector removes objects whose owner was deleted.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from epd_local.cluster import audit
from support import waiting
from support.client import Answer, Client
from support.processes import Processes, free_ports

CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICE_ACCOUNT_KEY = "certs/apiserver.key"
"""Created by the API server for its own certificate, before it reads the key of the service accounts."""

UNUSED_ADDRESS = "198.51.100.1"
"""From TEST-NET-2: the API server must advertise an address that is not loopback; it is not used here."""


def controlplane_binary() -> str:
    """The program with etcd, kube-apiserver and the controllers; ``EPD_CONTROLPLANE`` replaces the project's own."""
    chosen = os.environ.get("EPD_CONTROLPLANE")
    if chosen:
        return chosen
    command = [sys.executable, "-m", "epd_local", "build", "--print", "controlplane"]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    if built.returncode != 0:
        raise RuntimeError(f"no control plane to test against: {' '.join(command)} failed:\n{built.stderr[-2000:]}")
    return built.stdout.strip().splitlines()[-1]


@dataclass
class ApiServer:
    """The processes and their addresses; a context manager."""

    folder: Path
    with_controllers: bool = False
    controller_flags: Sequence[str] = ()
    api_flags: Sequence[str] = ()
    with_audit: bool = False
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    url: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._processes = Processes(self.folder)

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start(controlplane_binary())
        except BaseException:
            self._processes.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._processes.stop()

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig of a cluster administrator."""
        return self.folder / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """Requests of ServiceAccounts, if they are recorded."""
        return self.folder / "audit.log"

    @property
    def client(self) -> Client:
        """A client with the rights of a cluster administrator."""
        return Client(url=self.url, token=self.token, ca_file=self.folder / "certs" / "apiserver.crt")

    def wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds; raise when it takes too long or a process has ended."""
        waiting.wait_for(what, holds, check=self._processes.require_alive)

    def install_crds(self, folder: Path) -> list[Answer]:
        """Create every CRD of a folder and wait until each is served; the answers carry the server's warnings."""
        documents = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]
        return [self.install_crd(document) for document in documents]

    def install_crd(self, crd: dict[str, Any]) -> Answer:
        """Create one CRD and wait until it is served."""
        answer = self.client.create(CRD_PATH, crd)
        if not answer.ok:
            raise RuntimeError(f"{crd['metadata']['name']}: {answer.message}")
        version = crd["spec"]["versions"][0]["name"]
        collection = f"/apis/{crd['spec']['group']}/{version}/{crd['spec']['names']['plural']}"
        self.wait_for(f"CRD {crd['metadata']['name']} established", lambda: self._established(crd["metadata"]["name"]))
        self.wait_for(f"{collection} served", lambda: self.client.get(collection).ok)
        return answer

    def _established(self, name: str) -> bool:
        conditions = self.client.get(f"{CRD_PATH}/{name}").body.get("status", {}).get("conditions") or []
        return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

    def _start(self, binary: str) -> None:
        etcd_port, peer_port, port = free_ports(3)
        etcd, peer = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
        self.url = f"https://127.0.0.1:{port}"
        (self.folder / "tokens.csv").write_text(f"{self.token},admin,admin,system:masters\n")
        (self.folder / "tokens.csv").chmod(0o600)
        self._processes.start(
            "etcd",
            [
                *(binary, "etcd", "--data-dir=etcd", "--unsafe-no-fsync", "--log-level=error"),
                *(f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}", f"--listen-peer-urls={peer}"),
                *(f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"),
            ],
        )
        self._processes.start(
            "kube-apiserver",
            [
                *(binary, "kube-apiserver", f"--etcd-servers={etcd}", "--authorization-mode=RBAC", "--cert-dir=certs"),
                *("--token-auth-file=tokens.csv", f"--service-account-key-file={SERVICE_ACCOUNT_KEY}"),
                f"--service-account-signing-key-file={SERVICE_ACCOUNT_KEY}",
                "--service-account-issuer=https://kubernetes.default.svc",
                *("--bind-address=127.0.0.1", f"--secure-port={port}", f"--advertise-address={UNUSED_ADDRESS}"),
                *("--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/16", "--allow-privileged"),
                *self._audit_flags(),
                *self.api_flags,
            ],
        )
        self.wait_for("API server ready", self._ready)
        self._write_kubeconfig()
        if self.with_controllers:
            self._start_controllers(binary)

    def _audit_flags(self) -> list[str]:
        if not self.with_audit:
            return []
        policy = self.folder / "audit-policy.json"
        audit.write_policy(policy)
        return audit.flags(policy_file=policy, log=self.audit_log)

    def _ready(self) -> bool:
        try:
            return self.client.get("/readyz").ok
        except OSError:  # no certificate yet, or not listening yet
            return False

    def _start_controllers(self, binary: str) -> None:
        self._processes.start(
            "kube-controller-manager",
            [
                *(binary, "kube-controller-manager", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"),
                *("--secure-port=0", "--root-ca-file=certs/apiserver.crt"),
                f"--service-account-private-key-file={SERVICE_ACCOUNT_KEY}",
                *self.controller_flags,
            ],
        )
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait_for("ServiceAccount created by the controllers", lambda: self.client.get(account).ok)

    def _write_kubeconfig(self) -> None:
        authority = base64.b64encode(self.client.ca_file.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": {"server": self.url, "certificate-authority-data": authority}}],
            "users": [{"name": "admin", "user": {"token": self.token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "admin", "namespace": "default"}}],
        }
        self.kubeconfig.write_text(json.dumps(config))
        self.kubeconfig.chmod(0o600)
