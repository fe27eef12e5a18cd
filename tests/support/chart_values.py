"""Sets of values that the chart is rendered with."""

from __future__ import annotations

from typing import Any

FULL = {
    "replicas": 2,
    "commonLabels": {"team": "serving", "example.com/cost-centre": "42"},
    "podLabels": {"sidecar": "no"},
    "podAnnotations": {"example.com/note": "yes"},
    "imagePullSecrets": [{"name": "registry"}],
    "priorityClassName": "system-cluster-critical",
    "prometheusUrl": "http://prometheus.monitoring:9090",
    "nodeSelector": {"pool": "system"},
    "tolerations": [{"key": "system", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
    ],
    "networkPolicy": {
        "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        "egress": {"enabled": True, "rules": [{"ports": [{"port": 6443, "protocol": "TCP"}]}]},
    },
    "serviceAccount": {"annotations": {"example.com/note": "yes"}},
}
SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "full": FULL,
    "namespaced": {"watchNamespaces": ["team-a", "team-b"]},
    "without election": {"leaderElection": {"enabled": False}},
    "least": {
        "replicas": 0,
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "made-elsewhere"},
        "workerRole": {"create": False},
        "crds": {"install": "Never", "dynamo": "Never"},
        "networkPolicy": {"enabled": False},
        "podDisruptionBudget": {"enabled": False},
        "admission": {"enabled": False},
    },
    "renamed": {"nameOverride": "epd", "fullnameOverride": "serving", "workerRole": {"name": "other-workers"}},
}
