"""Removing a cluster removes its own files and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_local.cluster import cgroups, own_folders, removal
from epd_local.errors import LocalClusterError
from epd_local.locations import Locations


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Locations:
    """Folders of a cluster that has ended. The cgroups and folders of the machine are not touched."""
    monkeypatch.setattr(cgroups, "hierarchies", lambda: cgroups.Hierarchies(version=1, roots=()))
    monkeypatch.setattr(own_folders, "remove_unless_used", lambda: None)
    state = tmp_path / "state"
    state.mkdir()
    return Locations(cache=tmp_path / "cache", state=state, data=state / "data")


def test_everything_of_a_cluster_is_removed_except_the_lock_that_the_caller_holds(where):
    for name in ("cluster.json", "lock", "kubeconfig", "data/etcd/member", "logs/cpu-0/kubelet.log"):
        (where.state / name).parent.mkdir(parents=True, exist_ok=True)
        (where.state / name).write_text("")
    removal.remove_everything(where)
    assert [entry.name for entry in where.state.iterdir()] == ["lock"]
    removal.remove_state_folder(where)
    assert not where.state.exists()


def test_a_folder_with_other_files_is_not_removed(where):
    (where.state / "thesis.tex").write_text("years of work")
    with pytest.raises(LocalClusterError, match=r"thesis\.tex.*EPD_STATE"):
        removal.remove_everything(where)
    assert (where.state / "thesis.tex").read_text() == "years of work"


def test_links_are_removed_and_not_followed(where, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    (where.state / "cluster.json").write_text("{}")
    (where.state / "link").symlink_to(tmp_path / "kept")
    removal.remove_everything(where)
    assert (tmp_path / "kept" / "file").read_text() == "x"
    assert not (where.state / "link").is_symlink()


def test_removing_a_cluster_that_does_not_exist_is_no_error(where):
    removal.remove_everything(where)
    removal.remove_everything(where)
