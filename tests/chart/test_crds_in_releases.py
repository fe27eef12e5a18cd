"""The CRDs through install, upgrade, rollback, uninstall and reinstall, with both Helms and a real API server."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from support.apiserver import CRD_PATH
from support.charts import CRD_FILES, DYNAMO, EPD, SCALE, Site, chart_with_columns, columns, crd, with_column
from support.helm import Helm, HelmError
from support.operated import PRIMARIES

RELEASE = "epd-operator"
UNMANAGED = "CRDs that this release does not manage:"
OBJECT = {
    "apiVersion": "epd.dev/v1alpha1",
    "kind": "EPDDeployment",
    "metadata": {"name": "kept"},
    "spec": {
        "model": {"name": "m"},
        "runtime": {"image": "w"},
        "topology": "Aggregated",
        "pools": [{"name": "p", "gpu": {"product": "g"}}],
        "worker": {"pool": "p"},
    },
}


def take_over(helm: Helm) -> list[str]:
    """Flags to take over CRDs of a foreign owner. Helm 4 may apply on the server, where fields conflict."""
    force = ["--force-conflicts"] if helm.major == 4 else []
    return ["--take-ownership", "--set", "crds.install=Always", *force]


def apply_as_kubectl(site: Site, name: str, *, column: str = "Foreign") -> dict[str, object]:
    """``kubectl apply --server-side`` of another version of a CRD."""
    answer = site.client.apply(f"{CRD_PATH}/{name}", with_column(crd(name), column), manager="kubectl")
    assert answer.ok, answer.message
    return answer.body


def release_of(document: dict[str, object]) -> str | None:
    """The release that a live object belongs to."""
    annotations = document["metadata"].get("annotations") or {}  # type: ignore[attr-defined]
    return annotations.get("meta.helm.sh/release-name")


def writers(document: dict[str, object]) -> list[object]:
    """The managed fields, without those of the status, which the API server may write late."""
    fields = document["metadata"]["managedFields"]  # type: ignore[index]
    return [entry for entry in fields if entry.get("subresource") != "status"]


def create_object(site: Site) -> str:
    """A user's object; returns its uid."""
    path = PRIMARIES.format(site.teams[0])
    site.server.wait_for("kind served", lambda: site.client.get(path).ok)
    answer = site.client.create(path, OBJECT)
    assert answer.ok, answer.message
    return str(answer.body["metadata"]["uid"])


def uid_of_object(site: Site) -> str:
    """Its uid now. The CRDs must not be marked for deletion."""
    assert [name for name in CRD_FILES if "deletionTimestamp" in site.live(name)["metadata"]] == []
    found = site.client.get(f"{PRIMARIES.format(site.teams[0])}/kept")
    assert found.ok, found.message
    return str(found.body["metadata"]["uid"])


def test_installation_creates_the_crds_of_the_repository(helm: Helm, site: Site) -> None:
    notes = helm.install(RELEASE, namespace=site.system)
    assert UNMANAGED not in notes
    for name in CRD_FILES:
        live = site.live(name)
        assert columns(live) == columns(crd(name))
        assert release_of(live) == RELEASE
        assert live["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    create_object(site)


def test_an_upgrade_changes_the_crds_and_a_rollback_changes_them_back(helm: Helm, site: Site, tmp_path: Path) -> None:
    helm.install(RELEASE, namespace=site.system)
    uid = create_object(site)
    helm.upgrade(RELEASE, namespace=site.system, chart=chart_with_columns(tmp_path, "Later"))
    assert all("Later" in columns(site.live(name)) for name in CRD_FILES)
    helm.run("rollback", RELEASE, "1", "-n", site.system)
    assert not any("Later" in columns(site.live(name)) for name in CRD_FILES)
    assert uid_of_object(site) == uid


def test_uninstalling_keeps_crds_and_objects_and_the_same_release_owns_them_again(
    helm: Helm, site: Site, tmp_path: Path
) -> None:
    helm.install(RELEASE, namespace=site.system)
    uid = create_object(site)
    helm.run("uninstall", RELEASE, "-n", site.system)
    assert not site.client.get(f"/apis/apps/v1/namespaces/{site.system}/deployments/{RELEASE}").ok
    assert uid_of_object(site) == uid
    notes = helm.install(RELEASE, namespace=site.system, chart=chart_with_columns(tmp_path, "Later"))
    assert UNMANAGED not in notes
    assert all("Later" in columns(site.live(name)) for name in CRD_FILES)
    assert uid_of_object(site) == uid


def test_a_release_of_another_name_takes_over_the_crds_of_the_first_only_on_request(
    helm: Helm, site: Site, tmp_path: Path
) -> None:
    helm.install(RELEASE, namespace=site.system)
    uid = create_object(site)
    helm.run("uninstall", RELEASE, "-n", site.system)
    later = chart_with_columns(tmp_path, "Later")
    assert UNMANAGED in helm.install("other", namespace=site.system, chart=later)
    assert "Later" not in columns(site.live(EPD))
    notes = helm.upgrade("other", *take_over(helm), namespace=site.system, chart=later)
    assert EPD not in notes
    assert "Later" in columns(site.live(EPD))
    assert release_of(site.live(EPD)) == "other"
    # Later upgrades need no flags.
    helm.upgrade("other", "--reset-values", namespace=site.system, chart=chart_with_columns(tmp_path, "Latest"))
    assert "Latest" in columns(site.live(EPD))
    assert uid_of_object(site) == uid


def test_dynamos_crd_of_a_foreign_owner_is_never_changed(helm: Helm, site: Site, tmp_path: Path) -> None:
    apply_as_kubectl(site, DYNAMO)
    before = site.live(DYNAMO)
    notes = helm.install(RELEASE, namespace=site.system)
    assert DYNAMO in notes.split(UNMANAGED)[1]
    assert EPD not in notes
    helm.upgrade(RELEASE, *take_over(helm), namespace=site.system, chart=chart_with_columns(tmp_path, "Later"))
    helm.run("rollback", RELEASE, "1", "-n", site.system)
    helm.run("uninstall", RELEASE, "-n", site.system)
    assert writers(site.live(DYNAMO)) == writers(before)
    assert site.live(DYNAMO)["spec"] == before["spec"]


def test_dynamos_crd_stays_when_another_owner_takes_it_over(helm: Helm, site: Site, tmp_path: Path) -> None:
    helm.install(RELEASE, namespace=site.system)
    theirs = with_column(crd(DYNAMO), "Platform")
    theirs["metadata"]["annotations"] = {"meta.helm.sh/release-name": "dynamo-platform"}
    assert site.client.apply(f"{CRD_PATH}/{DYNAMO}", theirs, manager="platform").ok
    notes = helm.upgrade(RELEASE, namespace=site.system, chart=chart_with_columns(tmp_path, "Later"))
    assert DYNAMO in notes
    assert columns(site.live(DYNAMO))[-1] == "Platform"
    helm.run("uninstall", RELEASE, "-n", site.system)
    assert release_of(site.live(DYNAMO)) == "dynamo-platform"


def test_never_installs_no_crds(helm: Helm, site: Site) -> None:
    notes = helm.install(RELEASE, "--set", "crds.install=Never,crds.dynamo=Never", namespace=site.system)
    assert all(name in notes for name in CRD_FILES)
    assert [name for name in CRD_FILES if site.crd(name)] == []


def test_an_upgrade_takes_over_crds_again_where_a_rollback_cannot(helm: Helm, site: Site) -> None:
    helm.install(RELEASE, namespace=site.system)
    uid = create_object(site)
    helm.upgrade(RELEASE, "--set", "crds.install=Never,crds.dynamo=Never", namespace=site.system)
    if helm.major == 3:
        with pytest.raises(HelmError, match=r"metadata\.resourceVersion: Invalid value"):
            helm.run("rollback", RELEASE, "1", "-n", site.system)
    assert UNMANAGED not in helm.upgrade(RELEASE, "--reset-values", namespace=site.system)
    assert EPD in helm.run("get", "manifest", RELEASE, "-n", site.system)
    assert uid_of_object(site) == uid


def test_another_owner_takes_over_the_crds_of_a_release_without_deletion(helm: Helm, site: Site) -> None:
    helm.install(RELEASE, namespace=site.system)
    uid = create_object(site)
    helm.upgrade(RELEASE, "--set", "crds.install=Never,crds.dynamo=Never", namespace=site.system)
    apply_as_kubectl(site, SCALE, column="Apart")
    assert uid_of_object(site) == uid
    assert columns(site.live(SCALE))[-1] == "Apart"


def test_always_refuses_crds_of_a_foreign_owner_without_take_ownership(helm: Helm, site: Site) -> None:
    apply_as_kubectl(site, EPD)
    with pytest.raises(HelmError, match=r"cannot be imported into the current release|invalid ownership"):
        helm.install(RELEASE, "--set", "crds.install=Always", namespace=site.system)
    assert "Foreign" in columns(site.live(EPD))


def test_helm_4_continues_a_release_of_helm_3(both: tuple[Helm, Helm], site: Site, tmp_path: Path) -> None:
    three, four = both
    three.install(RELEASE, namespace=site.system)
    uid = create_object(site)
    four.upgrade(RELEASE, namespace=site.system, chart=chart_with_columns(tmp_path, "Later"))
    assert all("Later" in columns(site.live(name)) for name in CRD_FILES)
    four.run("uninstall", RELEASE, "-n", site.system)
    assert uid_of_object(site) == uid


def test_the_record_of_a_release_is_far_below_the_size_limit_of_a_secret(helm: Helm, site: Site) -> None:
    helm.install(RELEASE, "--set", "monitoring.dashboards.enabled=true", namespace=site.system)
    (record,) = site.client.get(f"/api/v1/namespaces/{site.system}/secrets").body["items"]
    limit = 1024 * 1024
    assert len(base64.b64decode(record["data"]["release"])) < limit / 2
