"""A private certificate authority: every component has its own certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from epd_local.cluster.nodes import API_SERVICE_IP, CLUSTER_DOMAIN, CONTROL_PLANE_IP, Node
from epd_local.progress import call

VALID_DAYS = "3650"


@dataclass(frozen=True)
class CertificateIdentity:
    """The identity in a certificate, as Kubernetes reads it: CN is the user, O are the groups."""

    file: str
    user: str
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # subject alternative names, only for a server

    @property
    def subject(self) -> str:
        """The subject in the format of openssl."""
        return "".join(f"/O={group}" for group in self.groups) + f"/CN={self.user}"

    @property
    def extensions(self) -> str:
        """Content of an openssl extension file."""
        usage = "serverAuth" if self.names else "clientAuth"
        lines = [
            "basicConstraints=critical,CA:FALSE",
            "keyUsage=critical,digitalSignature",
            f"extendedKeyUsage={usage}",
        ]
        if self.names:
            lines.append(f"subjectAltName={','.join(self.names)}")
        return "\n".join(lines) + "\n"


def control_plane_identities() -> tuple[CertificateIdentity, ...]:
    """Return the identities of the control plane's components and of the administrator."""
    service = "kubernetes.default.svc"
    dns = ("localhost", "kubernetes", "kubernetes.default", service, f"{service}.{CLUSTER_DOMAIN}")
    addresses = ("127.0.0.1", CONTROL_PLANE_IP, API_SERVICE_IP)
    names = (*(f"DNS:{name}" for name in dns), *(f"IP:{address}" for address in addresses))
    return (
        CertificateIdentity("apiserver", "kube-apiserver", names=names),
        CertificateIdentity("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
        CertificateIdentity("admin", "kubernetes-admin", groups=("system:masters",)),
        CertificateIdentity("controller-manager", "system:kube-controller-manager"),
        CertificateIdentity("scheduler", "system:kube-scheduler"),
        CertificateIdentity("kube-proxy", "system:kube-proxy"),
        CertificateIdentity("coredns", "system:coredns"),
    )


def node_identities(node: Node) -> tuple[CertificateIdentity, ...]:
    """Return the identities of the kubelet of a node: as a client of the API server, and as a server."""
    return (
        CertificateIdentity(f"kubelet-{node.name}", f"system:node:{node.name}", groups=("system:nodes",)),
        CertificateIdentity(
            f"kubelet-{node.name}-serving",
            f"system:node:{node.name}",
            groups=("system:nodes",),
            names=(f"DNS:{node.name}", f"IP:{node.address}"),
        ),
    )


def ensure_authority(folder: Path) -> None:
    """Create the authority and the key for service account tokens, unless they exist."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not (folder / "ca.crt").exists():
        _key(folder / "ca.key")
        command = ["openssl", "req", "-x509", "-new", "-key", folder / "ca.key", "-subj", "/CN=epd-local-ca"]
        command += ["-days", VALID_DAYS, "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"]
        call([*command, "-out", folder / "ca.crt"], what="creating the certificate authority")
    if not (folder / "sa.pub").exists():
        _key(folder / "sa.key")
        command = ["openssl", "ec", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"]
        call(command, what="creating the key of service accounts")


def ensure_certificates(identities: Sequence[CertificateIdentity], *, folder: Path) -> None:
    """Create a key and a certificate for each identity that has none."""
    for identity in identities:
        certificate = folder / f"{identity.file}.crt"
        if certificate.exists():
            continue
        key = folder / f"{identity.file}.key"
        _key(key)
        request = call(
            ["openssl", "req", "-new", "-key", key, "-subj", identity.subject],
            what=f"requesting the certificate of {identity.user}",
        )
        extensions = folder / f"{identity.file}.ext"
        extensions.write_text(identity.extensions)
        command = ["openssl", "x509", "-req", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-CAcreateserial"]
        command += ["-days", VALID_DAYS, "-extfile", extensions]
        signed = call(command, what=f"signing the certificate of {identity.user}", stdin=request)
        certificate.write_text(signed)
        extensions.unlink()


def _key(path: Path) -> None:
    """Write a new P-256 key, which is faster to create than an RSA key."""
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path]
    call(command, what=f"creating the key {path.name}")
    path.chmod(0o600)
