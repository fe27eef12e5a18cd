"""Command lines of the components of the control plane, and the configuration of CoreDNS."""

from __future__ import annotations

from pathlib import Path

from epd_local.cluster import audit
from epd_local.cluster.config import ClusterConfig
from epd_local.cluster.nodes import (
    API_PORT,
    CLUSTER_DOMAIN,
    CONTROL_PLANE,
    CONTROL_PLANE_IP,
    SERVICE_NETWORK,
)

ETCD_URL = "http://127.0.0.1:2379"


def etcd(config: ClusterConfig) -> list[str]:
    """Return etcd's command line, without syncs to disk: the data is not needed after the process has ended."""
    return [
        config.binaries["controlplane"], "etcd",
        "--data-dir", str(config.data / "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
        "--listen-client-urls", ETCD_URL, "--advertise-client-urls", ETCD_URL,
    ]  # fmt: skip


def api_server(config: ClusterConfig) -> list[str]:
    """Return the API server's command line."""
    pki = config.state / "pki"
    return [
        config.binaries["controlplane"], "kube-apiserver",
        f"--etcd-servers={ETCD_URL}",
        f"--advertise-address={CONTROL_PLANE_IP}", "--bind-address=0.0.0.0", f"--secure-port={API_PORT}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--anonymous-auth=false",
        "--allow-privileged",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet-client.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--service-account-key-file={pki}/sa.pub", f"--service-account-signing-key-file={pki}/sa.key",
        f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        *audit.flags(policy_file=audit_policy_of(config.state), log=audit_log_of(config.state)),
    ]  # fmt: skip


def controller_manager(config: ClusterConfig) -> list[str]:
    """Return the controller manager's command line."""
    pki = config.state / "pki"
    return [
        config.binaries["controlplane"], "kube-controller-manager",
        f"--kubeconfig={kubeconfig_of(config.state, 'controller-manager')}",
        "--leader-elect=false", "--bind-address=127.0.0.1",
        f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key",
        "--use-service-account-credentials",
    ]  # fmt: skip


def scheduler(config: ClusterConfig) -> list[str]:
    """Return the scheduler's command line."""
    return [
        config.binaries["controlplane"], "kube-scheduler",
        f"--kubeconfig={kubeconfig_of(config.state, 'scheduler')}",
        "--leader-elect=false", "--bind-address=127.0.0.1",
    ]  # fmt: skip


def coredns(config: ClusterConfig) -> list[str]:
    """Return CoreDNS's command line."""
    return [config.binaries["coredns"], "-conf", str(config.state / "Corefile")]


def corefile(state: Path) -> str:
    """Return CoreDNS's configuration: it answers only for the cluster, without upstream servers."""
    return f"""\
.:53 {{
    bind {CONTROL_PLANE_IP}
    errors
    ready {CONTROL_PLANE_IP}:8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {kubeconfig_of(state, "coredns")}
        ttl 5
    }}
    cache 5
    loadbalance
}}
"""


def kubeconfig_of(state: Path, identity: str) -> Path:
    """Return the path of the kubeconfig of a component."""
    return state / "kubeconfigs" / identity


def audit_policy_of(state: Path) -> Path:
    """Return the path of the audit policy."""
    return state / "audit-policy.json"


def audit_log_of(state: Path) -> Path:
    """Return the path of the audit log."""
    return state / "logs" / CONTROL_PLANE / "audit.log"
