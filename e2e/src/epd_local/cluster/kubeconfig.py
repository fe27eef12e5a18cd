"""Client configurations, as JSON, which is valid YAML."""

from __future__ import annotations

import base64
import json
from pathlib import Path

CLUSTER_NAME = "epd-local"


def render(*, server: str, authority: bytes, certificate: bytes, key: bytes) -> str:
    """Return a kubeconfig that contains its certificates, so that it can be copied.

    Args:
        server: URL of the API server for the user of the file.
        authority: PEM of the cluster's certificate authority.
        certificate: PEM of the client's certificate.
        key: PEM of its key.
    """
    cluster = {"server": server, "certificate-authority-data": _encoded(authority)}
    user = {"client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CLUSTER_NAME, "cluster": cluster}],
        "users": [{"name": CLUSTER_NAME, "user": user}],
        "contexts": [{"name": CLUSTER_NAME, "context": {"cluster": CLUSTER_NAME, "user": CLUSTER_NAME}}],
        "current-context": CLUSTER_NAME,
    }
    return json.dumps(content, indent=2) + "\n"


def write(path: Path, *, server: str, pki: Path, identity: str) -> None:
    """Write the kubeconfig of an identity, readable only by its owner."""
    text = render(
        server=server,
        authority=(pki / "ca.crt").read_bytes(),
        certificate=(pki / f"{identity}.crt").read_bytes(),
        key=(pki / f"{identity}.key").read_bytes(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
