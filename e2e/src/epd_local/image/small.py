"""The small images: ``pause``, for the namespaces of a pod, and ``worker-local``, which uses the machine's /usr."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from epd_local.builds import go
from epd_local.builds.packages import static_busybox
from epd_local.builds.recipes import content_key
from epd_local.cluster.node_files import PAUSE_IMAGE
from epd_local.errors import LocalClusterError
from epd_local.image.archive import Image, Layer, write
from epd_local.locations import Locations
from epd_local.worker_env import LEAN_ENVIRONMENT, NIXL_LIBRARIES, NIXL_PLUGINS

WORKER_IMAGE = "docker.io/epd-operator/worker-local:dev"
# Increase it when the content of the images changes although their inputs do not.
RECIPE = "1"

SITE_PACKAGES = "/opt/epd/site-packages"
WORKER_HOME = "/var/cache/worker"
WORKER_ENVIRONMENT = {
    "PATH": "/opt/epd/python/bin:/usr/local/bin:/usr/bin:/bin:/busybox",
    "PYTHONPATH": f"/opt/epd/worker:{SITE_PACKAGES}",
    "LD_LIBRARY_PATH": f"/opt/epd/python/lib:{SITE_PACKAGES}/{NIXL_LIBRARIES}",
    "NIXL_PLUGIN_DIR": f"{SITE_PACKAGES}/{NIXL_PLUGINS}",
    "PYTHONDONTWRITEBYTECODE": "1",
    "HOME": WORKER_HOME,
    "XDG_CACHE_HOME": WORKER_HOME,
    # vLLM on a machine without a GPU.
    "VLLM_TARGET_DEVICE": "cpu",
    **LEAN_ENVIRONMENT,
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
_USERS = (
    "root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000::/var/cache/worker:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
)
_GROUPS = "root:x:0:\nworker:x:1000:\nnogroup:x:65534:\n"


def pause_image(where: Locations) -> Path:
    """Return the archive of the pause image; creates it if necessary."""
    program = go.ensure(["pause"], where=where)["pause"].read_bytes()
    layer = Layer()
    layer.file("pause", program, mode=0o755)
    return _cached(where, reference=PAUSE_IMAGE, layer=layer.finish(), settings={"Entrypoint": ["/pause"]})


def worker_image(where: Locations, *, reference: str = WORKER_IMAGE) -> Path:
    """Return the archive of the small worker image under a name; creates it if necessary.

    Raises:
        LocalClusterError: there is no static busybox on the machine.
    """
    busybox = static_busybox()
    if busybox is None:
        raise LocalClusterError("there is no static busybox; run `python3 -m epd_local packages`")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    layer = worker_layer(busybox.read_bytes(), applets=applets)
    return _cached(where, reference=reference, layer=layer, settings=worker_settings())


def worker_settings() -> dict[str, Any]:
    """Return the configuration of the worker image."""
    environment = [f"{name}={value}" for name, value in WORKER_ENVIRONMENT.items()]
    return {"Env": environment, "Cmd": ["/busybox/sh"], "WorkingDir": "/"}


def worker_layer(busybox: bytes, *, applets: list[str]) -> bytes:
    """Return a file system with a shell and an empty /usr, where pods mount the one of the machine."""
    layer = Layer()
    for folder in ("busybox", "dev", "etc", "opt", "opt/epd", "proc", "root", "run", "sys", "usr", "var", "var/cache"):
        layer.folder(folder)
    layer.folder("var/cache/worker", mode=0o1777)
    layer.folder("tmp", mode=0o1777)
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        layer.link(name, f"usr/{name}")
    layer.file("etc/passwd", _USERS.encode())
    layer.file("etc/group", _GROUPS.encode())
    layer.file("etc/nsswitch.conf", b"hosts: files dns\n")
    layer.file("busybox/busybox", busybox, mode=0o755)
    for applet in applets:
        if applet != "busybox":
            layer.link(f"busybox/{applet}", "busybox")
    return layer.finish()


def _cached(where: Locations, *, reference: str, layer: bytes, settings: dict[str, Any]) -> Path:
    name = reference.rpartition("/")[2].partition(":")[0]
    key = content_key([("layer", layer)], recipe=(RECIPE, reference, repr(sorted(settings.items())), go.architecture()))
    path = where.cache / "images" / key / f"{name}.tar"
    if not path.exists():
        write(Image(reference=reference, layer=layer, settings=settings, architecture=go.architecture()), path)
    return path
