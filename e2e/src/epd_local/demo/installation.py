"""Installs everything from a fresh machine to an operator that runs in the local cluster."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from epd_local import worker_env
from epd_local.builds import go, packages, pypi
from epd_local.builds.recipes import CLUSTER_BINARIES
from epd_local.cluster import lifecycle, operations
from epd_local.cluster.config import SHARED_FOLDER, parse_mount
from epd_local.demo.kubectl import Kubectl
from epd_local.image.operator import OPERATOR_IMAGE, operator_image
from epd_local.image.small import worker_image
from epd_local.locations import REPOSITORY, Locations
from epd_local.progress import call, step

SYSTEM_NAMESPACE = "epd-system"
RELEASE = "epd-operator"
OPERATOR_NODE = "cpu-0"


@dataclass(frozen=True)
class Installation:
    """A running local cluster with the operator in it."""

    where: Locations
    kubectl: Kubectl
    helm: Path


@dataclass(frozen=True)
class Prepared:
    """The results of the preparation, which the start of the cluster needs."""

    helm: Path
    site_packages: Path
    worker_image: Path
    operator_image: Path


def prepare(where: Locations) -> Prepared:
    """Install packages, build binaries and images, install the worker environment; skips what exists already.

    Raises:
        LocalClusterError: the machine cannot run it, or a step failed.
    """
    packages.ensure(packages.CLUSTER_PACKAGES + packages.IMAGE_PACKAGES)
    binaries = go.ensure([*CLUSTER_BINARIES, "helm"], where=where)
    return Prepared(
        helm=binaries["helm"],
        site_packages=worker_env.ensure(),
        worker_image=worker_image(where),
        operator_image=operator_image(where),
    )


def install(where: Locations) -> Installation:
    """Prepare the machine, start the cluster and install the operator; skips what exists already.

    Raises:
        LocalClusterError: the machine cannot run it, or a step failed.
    """
    prepared = prepare(where)
    mounts = {
        "python": Path(sys.base_prefix),
        "site-packages": prepared.site_packages,
        "worker": REPOSITORY / "worker_images" / "src",
        "models": REPOSITORY / "e2e" / "tiny_model" / "models",
    }
    lifecycle.start(
        where,
        names=[],
        mounts=[parse_mount(f"{source}:{SHARED_FOLDER}/{name}") for name, source in mounts.items()],
    )
    operations.load_images(where, archives=[prepared.worker_image])
    # The other nodes are tainted: the operator does not run there.
    operations.load_images(where, archives=[prepared.operator_image], nodes=[OPERATOR_NODE])
    found = Installation(
        where=where,
        kubectl=Kubectl(program=pypi.kubectl(where), kubeconfig=where.kubeconfig),
        helm=prepared.helm,
    )
    _install_operator(found, image=prepared.operator_image)
    return found


def _install_operator(installation: Installation, *, image: Path) -> None:
    """Install the chart, or upgrade an existing release."""
    with step("installing the operator", usually="15 s"):
        call(
            install_command(installation.helm, image=image),
            what="installing the operator with Helm",
            environment={**os.environ, "KUBECONFIG": str(installation.where.kubeconfig)},
        )


def install_command(helm: Path, *, image: Path) -> list[str | Path]:
    """The command for Helm. The name of the archive depends on its content: a new image restarts the operator.

    The chart always installs the CRDs, because in clusters of earlier versions no release owns them.
    """
    repository, tag = OPERATOR_IMAGE.rsplit(":", 1)
    return [
        helm, "upgrade", "--install", RELEASE, REPOSITORY / "charts" / "epd-operator",
        "--namespace", SYSTEM_NAMESPACE, "--create-namespace", "--wait", "--timeout", "3m",
        "--take-ownership", "--set", "crds.install=Always,crds.dynamo=Always",
        "--set", f"image.repository={repository}", "--set", f"image.tag={tag}",
        "--set-string", f"podAnnotations.epd\\.dev/image-content={image.stem}",
    ]  # fmt: skip
