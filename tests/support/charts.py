"""Charts to install (this one, its predecessor, copies with other CRDs), and the cluster that they are installed in."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from support.apiserver import CRD_PATH, ApiServer
from support.client import Client
from support.helm import CHART, documents

ROOT = CHART.parents[1]
PREVIOUS = ROOT / "tests" / "chart" / "previous" / "0.1.0"
EPD = "epddeployments.epd.dev"
SCALE = "epdstagescales.epd.dev"
DYNAMO = "dynamoworkermetadatas.nvidia.com"
CRD_FILES = {
    EPD: "epd.dev_epddeployments.yaml",
    SCALE: "epd.dev_epdstagescales.yaml",
    DYNAMO: "nvidia.com_dynamoworkermetadatas.yaml",
}

OURS = "labelSelector=app.kubernetes.io/name%3Depd-operator"
CLUSTER_SCOPED = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
)


@dataclass(frozen=True, kw_only=True)
class Site:
    """An API server, a namespace for the operator and two for teams."""

    server: ApiServer
    system: str
    teams: tuple[str, str]

    @property
    def client(self) -> Client:
        return self.server.client

    def crd(self, name: str) -> dict[str, Any] | None:
        answer = self.client.get(f"{CRD_PATH}/{name}")
        return answer.body if answer.ok else None

    def live(self, name: str) -> dict[str, Any]:
        found = self.crd(name)
        assert found is not None, name
        return found


def crd(name: str) -> dict[str, Any]:
    """A CRD as the repository has it."""
    (document,) = documents((ROOT / "crds" / CRD_FILES[name]).read_text())
    return document


def with_column(document: dict[str, Any], column: str) -> dict[str, Any]:
    """The CRD as another version of the project might have it: with one printer column more."""
    changed = copy.deepcopy(document)
    columns = changed["spec"]["versions"][0].setdefault("additionalPrinterColumns", [])
    columns.append({"name": column, "type": "string", "jsonPath": ".metadata.uid"})
    return changed


def columns(document: dict[str, Any]) -> list[str]:
    """Names of the printer columns."""
    return [column["name"] for column in document["spec"]["versions"][0]["additionalPrinterColumns"]]


def chart_with_columns(folder: Path, column: str) -> Path:
    """A copy of the chart, one version later, whose CRDs have one printer column more each."""
    copied = folder / f"chart-{column}" / CHART.name
    shutil.copytree(CHART, copied)
    for name, file in CRD_FILES.items():
        (copied / "files" / "crds" / file).write_text(json.dumps(with_column(crd(name), column)))
    about = yaml.safe_load((copied / "Chart.yaml").read_text())
    (copied / "Chart.yaml").write_text(yaml.safe_dump({**about, "version": "0.2.1"}))
    return copied


def remove_cluster_scoped(server: ApiServer) -> None:
    """Delete every CRD and all cluster-scoped objects with the chart's label."""
    for collection in CLUSTER_SCOPED:
        assert server.client.request("DELETE", f"{collection}?{OURS}").ok, collection
    assert server.client.request("DELETE", CRD_PATH).ok
    server.wait_for("CRDs removed", lambda: not server.client.get(CRD_PATH).body["items"])
