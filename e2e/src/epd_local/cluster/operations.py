"""Operations on a running cluster: start and crash nodes, load images, expose Services, stop the cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

from epd_local.cluster import config as configuration
from epd_local.cluster import exposure, power, preflight, processes, removal
from epd_local.cluster.config import ClusterConfig
from epd_local.cluster.images import keep_archives
from epd_local.cluster.lifecycle import api_client, changing
from epd_local.cluster.nodes import CONTROL_PLANE
from epd_local.errors import LocalClusterError
from epd_local.locations import Locations
from epd_local.progress import call, say, step


def running_config(where: Locations) -> ClusterConfig:
    """Return the configuration of the cluster.

    Raises:
        LocalClusterError: it is not running, or this user is not root.
    """
    preflight.require_root()
    config = configuration.load(where.state)
    if config is None or processes.control_plane_init(where.state) is None:
        raise LocalClusterError("the cluster is not running; run `python3 -m epd_local start`")
    return config


def switch_node_on(where: Locations, *, name: str) -> None:
    """Start a node that crashed, or a new one, and wait until it is ready."""
    with changing(where):
        config = power.with_nodes(running_config(where), [name])
        config.save()
        node = config.node(name)
        with step(f"node {name}", usually="8 s"):
            power.ensure_on(config, node)
            power.wait_ready(config, node, api=api_client(where))
            power.route_services(config)


def crash_node(where: Locations, *, name: str) -> None:
    """Simulate a power failure of a node."""
    with changing(where):
        config = running_config(where)
        power.switch_off(config, config.node(name))
        power.route_services(config)
    say(f"{name} has no power; the cluster detects it within a minute. `node {name}` starts it again")


def load_images(where: Locations, *, archives: Sequence[Path], nodes: Sequence[str] = ()) -> None:
    """Import image archives into the given nodes, or into all nodes that have power.

    A node that is started later gets all images too.
    """
    with changing(where):
        config = running_config(where)
        kept = keep_archives(archives, store=config.data / "images", immutable=where.cache)
        powered = processes.node_inits(where.state)
        chosen = [config.node(name).name for name in nodes] or list(powered)
        if off := [name for name in chosen if name not in powered]:
            raise LocalClusterError(
                f"these nodes have no power: {', '.join(off)}; they get the images when `node` starts them"
            )
        with step(f"loading {', '.join(path.name for path in archives)} into {', '.join(chosen)}", usually="5 s"):

            def load(name: str) -> None:
                words = [name, *(str(path) for path in kept)]
                command = processes.inside_command("import", state=where.state, arguments=words)
                call(
                    processes.enter(powered[name], command),
                    what=f"loading images into {name}", environment=processes.python_environment(),
                )  # fmt: skip

            with ThreadPoolExecutor(max_workers=2) as pool:
                list(pool.map(load, chosen))


def expose(where: Locations, *, service: str, local_port: int) -> None:
    """Make a Service reachable on a port of the machine."""
    wanted = exposure.parse_service_port(service)
    with changing(where):
        running_config(where)
        say(exposure.expose(wanted, local_port=local_port, state=where.state, api=api_client(where)))


def execute(where: Locations, *, name: str, command: Sequence[str]) -> NoReturn:
    """Replace this process by a command in the namespaces of a node or of the control plane."""
    running_config(where)
    if name == CONTROL_PLANE:
        init = processes.control_plane_init(where.state)
    else:
        init = processes.node_inits(where.state).get(name)
    if init is None:
        raise LocalClusterError(f"{name} has no power or does not exist; `status` lists the nodes")
    words = processes.enter(init, command)
    os.execvp(words[0], words)


def down(where: Locations) -> None:
    """Stop the cluster and remove all its files and processes; without a cluster do nothing."""
    preflight.require_root()
    if not where.state.exists() and not where.data.exists() and not processes.find(where.state):
        say("no cluster is running")
        return
    with changing(where):
        removal.remove_everything(where)
        removal.remove_state_folder(where)
    say("the cluster was removed")
