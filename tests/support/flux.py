"""The real kustomize-controller of Flux, with a folder of this machine instead of a Git repository.

source-controller, which would fetch the repository, is replaced: the test packs the files itself and publishes the
archive in the status of the GitRepository. helm-controller is not there, so a HelmRelease is only an object.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from support.apiserver import ApiServer
from support.helm import binary
from support.kubectl import Kubectl
from support.processes import Processes, free_ports

ROOT = Path(__file__).parents[2]
FLUX = ROOT / "examples" / "gitops" / "flux"
SYSTEM = "flux-system"
CLUSTER = "clusters/production"
"""Folder of the cluster in the repository, which `flux bootstrap` syncs."""

CLUSTER_FILES = ("operator.yaml", "serving-namespace.yaml", "serving.yaml")
"""The files that the guide puts into this folder."""

KINDS = {
    "gitrepositories": ("source.toolkit.fluxcd.io", "v1", "GitRepository"),
    "ocirepositories": ("source.toolkit.fluxcd.io", "v1", "OCIRepository"),
    "buckets": ("source.toolkit.fluxcd.io", "v1", "Bucket"),
    "helmreleases": ("helm.toolkit.fluxcd.io", "v2", "HelmRelease"),
    "kustomizations": ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
}
MERGE = "application/merge-patch+json"

Files = dict[str, str]
"""Contents of a repository, by path."""


def example_repository(*, cluster: tuple[str, ...] = CLUSTER_FILES) -> Files:
    """A repository with the examples, and with some of the files in the folder of the cluster."""
    folder = ROOT / "examples" / "gitops"
    files = {str(path.relative_to(ROOT)): path.read_text() for path in folder.rglob("*.yaml")}
    return {**files, **{f"{CLUSTER}/{name}": (FLUX / name).read_text() for name in cluster}}


def controller_arguments(folder: Path) -> list[str]:
    """Arguments of kustomize-controller after the patch of the example ``flux-system``, which *folder* is built in."""
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kustomize-controller", "namespace": SYSTEM},
        "spec": {"template": {"spec": {"containers": [{"name": "manager", "args": ["--log-level=info"]}]}}},
    }
    folder.mkdir(parents=True)
    (folder / "kustomization.yaml").write_text((FLUX / "flux-system" / "kustomization.yaml").read_text())
    (folder / "gotk-components.yaml").write_text(yaml.safe_dump(deployment))
    (folder / "gotk-sync.yaml").write_text(yaml.safe_dump({**_kustomization(), "kind": "Kustomization"}))
    rendered = yaml.safe_load_all(Kubectl().get("kustomize", folder))
    (patched,) = [document for document in rendered if document["kind"] == "Deployment"]
    arguments: list[str] = patched["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


@dataclass
class Flux:
    """A running kustomize-controller and the repository that it follows."""

    server: ApiServer
    artifacts: dict[str, bytes] = field(default_factory=dict)
    address: str = ""
    revision: str = ""

    def push(self, files: Files) -> str:
        """Publish the files as the next revision; returns it."""
        archive = _archive(files)
        digest = hashlib.sha256(archive).hexdigest()
        self.revision = f"main@sha1:{len(self.artifacts):040x}"
        name = f"{len(self.artifacts)}.tar.gz"
        self.artifacts[f"/{name}"] = archive
        artifact = {
            "url": f"{self.address}/{name}",
            "path": name,
            "digest": f"sha256:{digest}",
            "revision": self.revision,
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        }
        self.patch_status("gitrepositories", SYSTEM, namespace=SYSTEM, status={"artifact": artifact})
        return self.revision

    def patch_status(self, plural: str, name: str, *, namespace: str, status: dict[str, Any]) -> None:
        """Set the status of an object, as its controller would."""
        path = f"{_collection(plural, namespace)}/{name}/status"
        answer = self.server.client.request("PATCH", path, {"status": status}, content_type=MERGE)
        assert answer.ok, answer.message

    def find(self, path: str) -> dict[str, Any] | None:
        """An object; None if it does not exist."""
        answer = self.server.client.get(path)
        return answer.body if answer.ok else None

    def kustomization(self, name: str) -> dict[str, Any] | None:
        """A Kustomization of Flux."""
        return self.find(f"{_collection('kustomizations', SYSTEM)}/{name}")

    def wait_applied(self, name: str, revision: str) -> None:
        """Wait until all objects of a Kustomization are applied and healthy at this revision."""
        self._wait_for(name, field="lastAppliedRevision", revision=revision)

    def wait_attempted(self, name: str, revision: str) -> None:
        """Wait until a Kustomization works on this revision."""
        self._wait_for(name, field="lastAttemptedRevision", revision=revision)

    def wait_gone(self, name: str) -> None:
        """Wait until a Kustomization is deleted. Then its objects are deleted as well, or are being deleted."""
        self.server.wait_for(f"Kustomization {name} removed", lambda: self.kustomization(name) is None)

    def _wait_for(self, name: str, *, field: str, revision: str) -> None:
        def reached() -> bool:
            return ((self.kustomization(name) or {}).get("status") or {}).get(field) == revision

        try:
            self.server.wait_for(f"Kustomization {name}: {field} {revision}", reached)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {(self.kustomization(name) or {}).get('status')}") from None


@contextmanager
def flux(server: ApiServer, *, folder: Path) -> Iterator[Flux]:
    """kustomize-controller with the arguments of the example, until the block ends."""
    for plural, (group, version, kind) in KINDS.items():
        server.install_crd(_crd(plural, group=group, version=version, kind=kind))
    running = Flux(server)
    with _served(running.artifacts) as running.address:
        for path, body in (
            ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}),
            (_collection("gitrepositories", SYSTEM), _repository()),
            (_collection("kustomizations", SYSTEM), _kustomization()),
        ):
            answer = server.client.create(path, body)
            assert answer.ok, answer.message
        arguments = controller_arguments(folder / "flux-system")
        processes = Processes(folder)
        (health,) = free_ports(1)
        environment = [f"KUBECONFIG={server.kubeconfig}", f"RUNTIME_NAMESPACE={SYSTEM}"]
        own = ["--metrics-addr=0", f"--health-addr=127.0.0.1:{health}", "--requeue-dependency=1s"]
        try:
            controller = str(binary("kustomize-controller"))
            processes.start("kustomize-controller", ["env", *environment, controller, *arguments, *own])
            yield running
            processes.require_alive()
        finally:
            processes.stop()


def _collection(plural: str, namespace: str) -> str:
    group, version, _ = KINDS.get(plural, ("epd.dev", "v1alpha1", ""))
    return f"/apis/{group}/{version}/namespaces/{namespace}/{plural}"


def _repository() -> dict[str, Any]:
    group, version, kind = KINDS["gitrepositories"]
    spec = {"url": "https://git.example.com/platform/serving.git", "interval": "1m"}
    return {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": SYSTEM}, "spec": spec}


def _kustomization() -> dict[str, Any]:
    """The Kustomization that `flux bootstrap` creates."""
    group, version, kind = KINDS["kustomizations"]
    source = {"kind": "GitRepository", "name": SYSTEM}
    spec = {"interval": "10m", "prune": True, "path": f"./{CLUSTER}", "sourceRef": source}
    return {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": SYSTEM, "namespace": SYSTEM},
        "spec": spec,
    }


def _crd(plural: str, *, group: str, version: str, kind: str) -> dict[str, Any]:
    """A kind of Flux, without its schema: `gitops-check` compares the examples with Flux's own types."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def _archive(files: Files) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


@contextmanager
def _served(contents: Mapping[str, bytes]) -> Iterator[str]:
    """An HTTP server for these contents, by path; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = contents.get(self.path)
            self.send_response(200 if content else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *_arguments: Any) -> None:
            """Nothing: the log of the controller has what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
