"""Pods as plain processes: each in a network namespace of its own, in a network that has IPv6 only.

The processes get the commands and variables that the operator renders for an EPDDeployment, and the launcher runs them.
Only discovery differs: files instead of Kubernetes, because the local cluster has IPv4 only.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import yaml
from stories import PATIENCE, eventually

from epd_local import worker_env
from epd_local.demo.deployment import example
from epd_local.image.small import SITE_PACKAGES, WORKER_ENVIRONMENT
from epd_local.locations import REPOSITORY
from epd_operator.api.v1alpha1 import EPDDeploymentSpec
from epd_operator.objects.identity import Identity
from epd_operator.plan.stages.plan_stages import plan_stages

PREFIX = "fd00:10::"
CONTROL_PORT = 9400
METRICS_PORT = 9090
HTTP_PORT = 8000

_CLIENT = """
import sys, urllib.error, urllib.request
url, limit = sys.argv[1], float(sys.argv[2])
body = sys.stdin.buffer.read() or None
request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
try:
    answer = urllib.request.urlopen(request, timeout=limit)
except urllib.error.HTTPError as error:
    answer = error
except OSError as error:
    sys.exit(print(0) or print(error))
print(answer.status)
print(answer.read().decode())
"""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Status and body of an HTTP answer; status 0 and the reason without one."""

    status: int
    body: str


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A running pod: the process that keeps its namespace, its address and its launcher."""

    name: str
    container: str
    address: str
    namespace: subprocess.Popen[bytes]
    launcher: subprocess.Popen[bytes]
    log: Path

    def url(self, port: int, path: str) -> str:
        """A URL of the pod."""
        return f"http://[{self.address}]:{port}{path}"


@dataclass
class PlainPods:
    """A switch and the pods on it; a context manager that ends all of them."""

    folder: Path
    pods: dict[str, Pod] = field(default_factory=dict)
    _namespaces: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._switch = self._new_namespace()
        self._ip(self._switch, "link add switch type bridge", "link set switch up")
        self._ip(self._switch, f"-6 addr add {PREFIX}1/64 dev switch nodad")
        return self

    def __exit__(self, *_: object) -> None:
        for pod in self.pods.values():
            pod.launcher.terminate()
        for pod in self.pods.values():
            pod.launcher.wait(PATIENCE)
        for namespace in self._namespaces:
            namespace.kill()
            namespace.wait()

    def start(self, name: str, container: Mapping[str, Any]) -> Pod:
        """Start the container of a pod and wait until its launcher reports it as ready."""
        pod = self.begin(name, container)
        self.wait(pod)
        return pod

    def wait(self, pod: Pod) -> None:
        """Wait until the launcher of a pod reports it as ready."""
        eventually(lambda: self._is_ready(pod), what=lambda: f"{pod.name} is not ready:\n{pod.log.read_text()[-3000:]}")

    def begin(self, name: str, container: Mapping[str, Any]) -> Pod:
        """Start the container of a pod."""
        number = len(self.pods) + 2
        address = f"{PREFIX}{number}"
        namespace = self._new_namespace()
        self._ip(self._switch, f"link add port{number} type veth peer name eth0 netns {namespace.pid}")
        self._ip(self._switch, f"link set port{number} master switch up")
        self._ip(namespace, "link set lo up", "link set eth0 up", f"-6 addr add {address}/64 dev eth0 nodad")
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            launcher = subprocess.Popen(
                [*_inside(namespace), *self._command(name, container)],
                env=self._environment(name, container, address=address),
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        pod = Pod(
            name=name,
            container=str(container["name"]),
            address=address,
            namespace=namespace,
            launcher=launcher,
            log=log,
        )
        self.pods[name] = pod
        return pod

    def request(self, url: str, *, body: bytes = b"") -> Reply:
        """Send a request from the switch, where no address is that of a pod."""
        command = [*_inside(self._switch), sys.executable, "-c", _CLIENT, url, str(PATIENCE)]
        answer = subprocess.run(command, input=body, stdout=subprocess.PIPE, check=True)
        status, _, text = answer.stdout.decode().partition("\n")
        return Reply(status=int(status), body=text)

    def addresses(self, pod: Pod) -> str:
        """The output of `ip addr` in a pod."""
        command = [*_inside(pod.namespace), "ip", "-brief", "addr"]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout

    def _is_ready(self, pod: Pod) -> bool:
        assert pod.launcher.poll() is None, f"{pod.name} has ended:\n{pod.log.read_text()[-3000:]}"
        return self.request(pod.url(CONTROL_PORT, f"/ready/{pod.container}")).status == 200

    def _new_namespace(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        self._namespaces.append(process)
        own = Path("/proc/self/ns/net").readlink()
        while Path(f"/proc/{process.pid}/ns/net").readlink() == own:
            assert process.poll() is None, "unshare failed: run the tests as root"
            time.sleep(0.01)
        return process

    def _ip(self, namespace: subprocess.Popen[bytes], *commands: str) -> None:
        for command in commands:
            subprocess.run([*_inside(namespace), "ip", *command.split()], check=True)

    def _command(self, name: str, container: Mapping[str, Any]) -> list[str]:
        python, *words = container["command"]
        assert (python, words[:2]) == ("python3", ["-m", "epd_worker"])
        assert words[2] in ("run", "run-group")
        rest = ["--termination-log", str(self.folder / f"{name}.end"), *words[3:]]
        return [str(worker_env.base_python()), *words[:3], *rest]

    def _environment(self, name: str, container: Mapping[str, Any], *, address: str) -> dict[str, str]:
        """The variables of the image and of the container, with the fields of the pod."""
        python = worker_env.base_python()
        image = {key: _on_this_machine(value) for key, value in WORKER_ENVIRONMENT.items()}
        image["PATH"] = f"{python.parent}:{image['PATH']}"
        of_pod = {"metadata.name": name, "metadata.namespace": "serving", "metadata.uid": name, "status.podIP": address}
        values: dict[str, str] = {}
        for variable in container["env"]:
            source = variable.get("valueFrom")
            value = of_pod[source["fieldRef"]["fieldPath"]] if source else variable["value"]
            values[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], value)
        discovery = {"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(self.folder / "discovery")}
        home = str(self.folder / name)
        return {**image, **values, **discovery, "HOME": home, "XDG_CACHE_HOME": home}


def _inside(namespace: subprocess.Popen[bytes]) -> list[str]:
    return ["nsenter", f"--net=/proc/{namespace.pid}/ns/net"]


def _on_this_machine(value: str) -> str:
    for inside, outside in {
        SITE_PACKAGES: str(worker_env.ensure()),
        "/opt/epd/worker": str(REPOSITORY / "worker_images" / "src"),
        "/opt/epd/python": sys.base_prefix,
    }.items():
        value = value.replace(inside, outside)
    return value


def containers(topology: str, changes: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    """The main container of each stage of the local example, as the operator renders it, in start order.

    `changes` has further fields of the stages.
    """
    spec = yaml.safe_load(example(topology).read_text())["spec"]
    for stage, fields in (changes or {}).items():
        spec[stage] |= fields
    spec["model"]["name"] = spec["model"]["name"].replace("/opt/epd/models", str(REPOSITORY / "e2e/tiny_model/models"))
    identity = Identity(name="tiny", namespace="serving", uid="u")
    plans = plan_stages(EPDDeploymentSpec.model_validate(spec), identity=identity)
    found = {str(plan.name): plan.pod_template["spec"]["containers"][-1] for plan in plans}
    # A frontend is ready only when it has discovered a model.
    return {name: found[name] for name in sorted(found, key=lambda name: (name == "frontend", name))}
