"""The configuration of a cluster, stored in its state folder for nodes that are started later."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from epd_local.cluster.nodes import Node
from epd_local.errors import LocalClusterError

SHARED_FOLDER = PurePosixPath("/opt/epd")
FILE_NAME = "cluster.json"


@dataclass(frozen=True)
class Mount:
    """A folder of the machine that is mounted read-only in every node, below /opt/epd."""

    source: Path
    target: PurePosixPath


@dataclass(frozen=True)
class ClusterConfig:
    """The configuration for the processes inside the namespaces."""

    name: str  # of the cgroup
    state: Path
    data: Path
    binaries: dict[str, str]
    cni_folder: str
    nodes: tuple[Node, ...]
    mounts: tuple[Mount, ...] = ()

    def node(self, name: str) -> Node:
        """Return the node called *name*.

        Raises:
            LocalClusterError: the cluster has no node of that name.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        names = ", ".join(node.name for node in self.nodes)
        raise LocalClusterError(f"the cluster has no node {name!r}; it has {names}")

    def save(self) -> None:
        """Write the file that `load` reads, atomically."""
        content = {
            "name": self.name,
            "data": str(self.data),
            "binaries": self.binaries,
            "cniFolder": self.cni_folder,
            "nodes": [node.name for node in self.nodes],
            "mounts": [f"{mount.source}:{mount.target}" for mount in self.mounts],
        }
        partial = self.state / f".{FILE_NAME}"
        partial.write_text(json.dumps(content, indent=2) + "\n")
        partial.rename(self.state / FILE_NAME)


def load(state: Path) -> ClusterConfig | None:
    """Return the configuration in a state folder, or None if no cluster was started."""
    try:
        content = json.loads((state / FILE_NAME).read_text())
    except FileNotFoundError:
        return None
    return ClusterConfig(
        name=content["name"],
        state=state,
        data=Path(content["data"]),
        binaries=content["binaries"],
        cni_folder=content["cniFolder"],
        nodes=tuple(Node(name=name, index=index) for index, name in enumerate(content["nodes"])),
        mounts=tuple(parse_mount(text) for text in content["mounts"]),
    )


def parse_mount(text: str) -> Mount:
    """Read ``HOST_PATH:/opt/epd/NAME``.

    Raises:
        LocalClusterError: the text has another form.
    """
    source, separator, target = text.rpartition(":")
    name = r"[A-Za-z0-9][A-Za-z0-9._-]*"
    if not (separator and source.startswith("/") and re.fullmatch(f"{SHARED_FOLDER}/{name}", target)):
        raise LocalClusterError(
            f"--mount needs HOST_PATH:{SHARED_FOLDER}/NAME with an absolute HOST_PATH, not {text!r}"
        )
    return Mount(source=Path(source), target=PurePosixPath(target))
