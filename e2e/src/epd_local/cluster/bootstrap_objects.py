"""Objects of a new cluster."""

from __future__ import annotations

from typing import Any

from epd_local.cluster.nodes import CONTROL_PLANE_IP, DNS_SERVICE_IP

_DNS_PORTS = ({"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"})


def objects() -> list[tuple[str, dict[str, Any]]]:
    """Return objects with the paths of their collections."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    return [
        (f"{rbac}/clusterroles", _coredns_role()),
        (f"{rbac}/clusterrolebindings", _binding("system:coredns", user="system:coredns")),
        # For logs, exec and port-forward the API server is a client of the kubelets.
        (f"{rbac}/clusterrolebindings", _binding("system:kubelet-api-admin", user="kube-apiserver-kubelet-client")),
        ("/api/v1/namespaces/kube-system/services", _dns_service()),
        ("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", _dns_endpoints()),
    ]


def _coredns_role() -> dict[str, Any]:
    def watch(group: str, *resources: str) -> dict[str, Any]:
        return {"apiGroups": [group], "resources": list(resources), "verbs": ["list", "watch"]}

    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "system:coredns"},
        "rules": [watch("", "services", "namespaces", "pods"), watch("discovery.k8s.io", "endpointslices")],
    }


def _binding(role: str, *, user: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"epd-local:{role.removeprefix('system:')}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def _dns_service() -> dict[str, Any]:
    """CoreDNS runs as a process next to the control plane; the Service has no selector."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": {"clusterIP": DNS_SERVICE_IP, "ports": list(_DNS_PORTS)},
    }


def _dns_endpoints() -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "kube-dns",
            "namespace": "kube-system",
            "labels": {
                "kubernetes.io/service-name": "kube-dns",
                "endpointslice.kubernetes.io/managed-by": "epd-local",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [CONTROL_PLANE_IP], "conditions": {"ready": True}}],
        "ports": list(_DNS_PORTS),
    }
