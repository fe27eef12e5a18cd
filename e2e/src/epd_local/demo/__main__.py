"""``python -m epd_local.demo``: from nothing to an answered image."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from epd_local import pictures
from epd_local.cluster import exposure, operations, preflight
from epd_local.demo.chat import Answer, Endpoint
from epd_local.demo.deployment import TOPOLOGIES, Deployment, example
from epd_local.demo.installation import Installation, install, prepare
from epd_local.demo.proof import RequestPath, read_path
from epd_local.errors import LocalClusterError
from epd_local.locations import REPOSITORY, locations
from epd_local.progress import say

MODEL = "epd-tiny-vl"
SERVICE_PORT = 8000
LOCAL_PORT = 8000
READY_SECONDS = 900.0
USUALLY = {"aggregated": "40 s", "colocated": "80 s", "disaggregated": "60 s"}
PICTURE = pictures.Subject(colour="red", shape="circle", seed=pictures.UNSEEN + 7)
TEXT = "Say hello."


def main(words: Sequence[str] | None = None) -> int:
    """Run the demo; an error is one message on stderr."""
    parser = argparse.ArgumentParser(prog="make demo", description="From nothing to an answered image.")
    parser.add_argument("--topology", type=str.lower, choices=TOPOLOGIES, default="disaggregated")
    parser.add_argument("--cluster-only", action="store_true", help="only start the cluster with the operator")
    parser.add_argument("--prepare-only", action="store_true", help="only install and build what is needed")
    parser.add_argument("--local-port", type=int, default=LOCAL_PORT, help="port of the endpoint on this machine")
    arguments = parser.parse_args(words)
    began = time.monotonic()
    try:
        if arguments.prepare_only:
            prepare(locations())
            return 0
        preflight.require_root()
        if not arguments.cluster_only:
            exposure.require_free(arguments.local_port, state=locations().state)
        installation = install(locations())
        if arguments.cluster_only:
            say(f"try: export KUBECONFIG={installation.where.kubeconfig}; kubectl get nodes")
            return 0
        deployment = serve(installation, manifest=example(arguments.topology), local_port=arguments.local_port)
        show(deployment, Endpoint(url=f"http://localhost:{arguments.local_port}", model=MODEL))
    except LocalClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    say(f"answered after {time.monotonic() - began:.0f} s")
    print(what_next(installation, topology=arguments.topology, local_port=arguments.local_port))
    return 0


def serve(installation: Installation, *, manifest: Path, local_port: int = LOCAL_PORT) -> Deployment:
    """Apply a manifest of the deployment ``tiny`` and wait until it answers on localhost."""
    deployment = Deployment(kubectl=installation.kubectl)
    shown = manifest.relative_to(REPOSITORY) if manifest.is_relative_to(REPOSITORY) else manifest
    say(f"kubectl apply -f {shown}")
    deployment.apply(manifest)
    say(f"waiting for Ready (usually {USUALLY.get(manifest.stem, '60 s')})")
    deployment.wait_ready(seconds=READY_SECONDS)
    operations.expose(
        installation.where, service=f"{deployment.namespace}/{deployment.name}:{SERVICE_PORT}", local_port=local_port
    )
    return deployment


def show(deployment: Deployment, endpoint: Endpoint) -> None:
    """Ask about a picture and ask for a text, and show the path of both requests."""
    start = read_path(deployment)
    about_picture = endpoint.ask(pictures.QUESTION, image=pictures.data_url(PICTURE))
    after_picture = read_path(deployment)
    plain = endpoint.ask(TEXT)
    after_text = read_path(deployment)
    _print(f"{pictures.QUESTION} (with a picture of a {PICTURE.answer})", about_picture, after_picture.since(start))
    _print(f"{TEXT} (text only)", plain, after_text.since(after_picture))


def _print(question: str, answer: Answer, path: RequestPath) -> None:
    print(
        f"\n  question: {question}\n  answer:   {answer.text}\n"
        f"  path:     {_requests(path.encoder_requests)} to encoders, {path.embedding_bytes} bytes by NIXL, "
        f"{_requests(path.worker_requests)} to workers that decode",
        flush=True,
    )


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{number} requests"


def what_next(installation: Installation, *, topology: str, local_port: int) -> str:
    """Return commands to continue with."""
    program = installation.kubectl.program
    path = "" if shutil.which(program.name) else f"\n  export PATH={program.parent}:$PATH"
    others = [other for other in TOPOLOGIES if other != topology]
    return NEXT.format(
        kubeconfig=installation.where.kubeconfig,
        path=path,
        port=local_port,
        model=MODEL,
        again=f"make demo TOPOLOGY={others[1]}",
        last=others[0],
    )


NEXT = """
The cluster keeps running. Try:
  export KUBECONFIG={kubeconfig}{path}
  kubectl get epd                         # one line per deployment
  kubectl describe epd tiny               # conditions and stages
  kubectl get pods -o wide                # which pod is on which node
  kubectl patch epd tiny --type merge -p '{{"spec":{{"frontend":{{"replicas":2}}}}}}'
  curl localhost:{port}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model":"{model}","messages":[{{"role":"user","content":"Say hello."}}]}}'
  {again:<40}# or {last}
  kubectl delete epd tiny                 # its pods finish their requests and terminate
  make down                               # stop the cluster and remove it
"""


if __name__ == "__main__":
    raise SystemExit(main())
