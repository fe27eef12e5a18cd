"""Folders: the clone, the cache outside it, and the state of the running cluster."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from epd_local.worker_env import cache_root

DEFAULT_STATE = Path("/run/epd-operator")
DEFAULT_DATA = Path("/var/lib/epd-operator")

REPOSITORY = Path(__file__).resolve().parents[3]
SOURCES = REPOSITORY / "e2e" / "src"
GO_MODULES = REPOSITORY / "e2e" / "go"


@dataclass(frozen=True)
class Locations:
    """Folders of one cluster. Clusters with different state folders can run at the same time."""

    cache: Path
    state: Path  # small: certificates, kubeconfigs, logs
    data: Path  # large: etcd, images, container file systems; needs a real disk

    @property
    def name(self) -> str:
        """Name of this cluster's cgroup, distinct for every state folder."""
        if self.state == DEFAULT_STATE:
            return "epd-operator"
        return "epd-operator-" + hashlib.sha256(str(self.state).encode()).hexdigest()[:8]

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for use from the machine."""
        return self.state / "kubeconfig"

    @property
    def logs(self) -> Path:
        """One folder per node and one for the control plane."""
        return self.state / "logs"

    @property
    def pki(self) -> Path:
        """Certificates and keys of the cluster."""
        return self.state / "pki"


def locations(environ: Mapping[str, str] = os.environ) -> Locations:
    """Return the folders that ``EPD_CACHE`` and ``EPD_STATE`` choose, or the standard ones."""
    chosen = environ.get("EPD_STATE")
    state = Path(chosen).absolute() if chosen else DEFAULT_STATE
    return Locations(
        cache=cache_root(environ).absolute(),
        state=state,
        data=DEFAULT_DATA if state == DEFAULT_STATE else state / "data",
    )
