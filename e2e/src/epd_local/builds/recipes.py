"""The binaries, the pinned Go module of each, and the usual duration of its build."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from epd_local.errors import LocalClusterError
from epd_local.locations import GO_MODULES

KUBERNETES_VERSION = "1.36.4"
HELM_VERSION = "3.22.0"
HELM4_VERSION = "4.3.2"
KWOK_VERSION = "0.7.0"
PROMETHEUS_VERSION = "3.15.1"

# Increase it when a change of the build changes the result.
RECIPE = "1"

_KUBERNETES_FLAGS = (
    f"-X k8s.io/component-base/version.gitVersion=v{KUBERNETES_VERSION} "
    "-X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
)
_HELM_FLAGS = (
    f"-X helm.sh/helm/v3/internal/version.version=v{HELM_VERSION} "
    # Version of its Kubernetes client, which `helm template` uses as the version of the cluster.
    "-X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37"
)
_HELM4_FLAGS = f"-X helm.sh/helm/v4/internal/version.version=v{HELM4_VERSION}"
_KWOK_FLAGS = f"-X sigs.k8s.io/kwok/pkg/consts.Version=v{KWOK_VERSION}"
_PROMETHEUS_FLAGS = f"-X github.com/prometheus/common/version.Version={PROMETHEUS_VERSION}"
# Kubernetes is the only service discovery that is needed.
_PROMETHEUS_TAGS = "remove_all_sd,enable_kubernetes_sd"
_PROMETHEUS = "github.com/prometheus/prometheus/cmd"


@dataclass(frozen=True)
class Binary:
    """A program built from a Go module of this repository."""

    name: str
    module: str  # folder below e2e/go
    package: str
    usually: str  # build time on 2 cores with an empty Go cache
    link_flags: str = ""
    tags: str = ""

    @property
    def module_folder(self) -> Path:
        """Folder of the pinned module."""
        return GO_MODULES / self.module


BINARIES = {
    binary.name: binary
    for binary in (
        Binary("controlplane", "kubernetes", "./controlplane", "5 minutes", _KUBERNETES_FLAGS),
        Binary("kubelet", "kubernetes", "./kubelet", "20 s after controlplane", _KUBERNETES_FLAGS),
        Binary("kube-proxy", "kubernetes", "./kube-proxy", "10 s after controlplane", _KUBERNETES_FLAGS),
        Binary("coredns", "coredns", ".", "2 minutes"),
        Binary("pause", "pause", ".", "2 s"),
        Binary("helm", "helm", "helm.sh/helm/v3/cmd/helm", "2 minutes", _HELM_FLAGS),
        Binary("helm4", "helm4", "helm.sh/helm/v4/cmd/helm", "2 minutes", _HELM4_FLAGS),
        Binary("gitops-check", "gitops", ".", "6 minutes"),
        Binary("kustomize-controller", "flux", "github.com/fluxcd/kustomize-controller", "5 minutes"),
        Binary("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", "3 minutes", _KWOK_FLAGS),
        Binary("promtool", "prometheus", f"{_PROMETHEUS}/promtool", "2 minutes", _PROMETHEUS_FLAGS, _PROMETHEUS_TAGS),
        Binary(
            "prometheus",
            "prometheus",
            f"{_PROMETHEUS}/prometheus",
            "1 minute after promtool",
            _PROMETHEUS_FLAGS,
            _PROMETHEUS_TAGS,
        ),
        Binary("controller-gen", "prometheus-operator", "sigs.k8s.io/controller-tools/cmd/controller-gen", "1 minute"),
    )
}
CLUSTER_BINARIES = ("controlplane", "kubelet", "kube-proxy", "coredns", "pause")


def binary_named(name: str) -> Binary:
    """Return the binary called *name*.

    Raises:
        LocalClusterError: there is none.
    """
    try:
        return BINARIES[name]
    except KeyError:
        raise LocalClusterError(f"there is no binary {name!r}; choose from {', '.join(BINARIES)}") from None


def content_key(files: Iterable[tuple[str, bytes]], *, recipe: Iterable[str]) -> str:
    """Return a short hash of named contents and of the words that describe their use, independent of the order."""
    digest = hashlib.sha256()
    for word in recipe:
        digest.update(f"{len(word)}:{word}".encode())
    for name, content in sorted(files):
        digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def build_key(binary: Binary, *, files: Iterable[tuple[str, bytes]], platform: str) -> str:
    """Return the name of the cache folder for *binary*, made from *files* for a *platform* such as ``linux/amd64``."""
    tags = (binary.tags,) if binary.tags else ()
    return content_key(files, recipe=(RECIPE, binary.module, binary.link_flags, platform, *tags))
