"""Finding cgroups in mountinfo, and creating and removing them in both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_local.cluster import cgroups
from epd_local.errors import LocalClusterError

V1 = """\
30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/cpuset rw,relatime shared:9 - cgroup cgroup rw,cpuset
33 30 0:29 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
"""
V2 = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
HYBRID = V1 + "36 30 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 none rw\n"
BASE = Path("/sys/fs/cgroup")


def test_version_1_has_one_tree_per_controller_including_the_named_one():
    assert cgroups.parse_mounts(V1) == cgroups.Hierarchies(
        version=1, roots=(BASE / "cpu", BASE / "cpuset", BASE / "systemd")
    )


def test_version_2_has_one_tree():
    assert cgroups.parse_mounts(V2) == cgroups.Hierarchies(version=2, roots=(BASE,))


def test_a_machine_with_both_versions_counts_as_version_1_and_is_cleaned_in_both():
    found = cgroups.parse_mounts(HYBRID)
    assert found is not None
    assert found.version == 1
    assert BASE / "unified" not in found.roots
    assert BASE / "unified" in found.every


def test_a_machine_without_cgroups_has_none():
    assert cgroups.parse_mounts("30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n") is None


def test_a_new_cpuset_of_version_1_gets_processors_and_memory_of_its_parent(tmp_path):
    (tmp_path / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset.mems").write_text("0\n")
    path = cgroups.create("epd", "cpu-0", where=cgroups.Hierarchies(version=1, roots=(tmp_path,)))
    assert path == "/epd/cpu-0"
    for folder in (tmp_path / "epd", tmp_path / "epd" / "cpu-0"):
        assert (folder / "cpuset.cpus").read_text() == "0-1\n"
        assert (folder / "cpuset.mems").read_text() == "0\n"


def test_version_2_enables_every_controller_that_the_kubelet_needs_down_to_the_node(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory hugetlb pids rdma misc\n")
    cgroups.create("epd", "cpu-0", where=cgroups.Hierarchies(version=2, roots=(tmp_path,)))
    for folder in (tmp_path, tmp_path / "epd", tmp_path / "epd" / "cpu-0"):
        enabled = (folder / "cgroup.subtree_control").read_text().split()
        assert sorted(enabled) == sorted(["+cpu", "+cpuset", "+io", "+memory", "+hugetlb", "+pids"])


def test_a_controller_that_the_kernel_lacks_is_not_enabled(tmp_path):
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    cgroups.create("epd", "cpu-0", where=cgroups.Hierarchies(version=2, roots=(tmp_path,)))
    assert "+hugetlb" not in (tmp_path / "cgroup.subtree_control").read_text()


def test_cgroups_that_cannot_be_created_are_refused_with_the_fix(tmp_path):
    (tmp_path / "epd").write_text("a file in the way")
    with pytest.raises(LocalClusterError, match="--privileged"):
        cgroups.create("epd", "cpu-0", where=cgroups.Hierarchies(version=1, roots=(tmp_path,)))


def test_removal_deletes_the_whole_tree_and_nothing_else(tmp_path):
    (tmp_path / "epd" / "cpu-0" / "kubepods" / "pod1").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    where = cgroups.Hierarchies(version=1, roots=(tmp_path,))
    assert cgroups.remove("epd", where=where) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["other"]


def test_the_cgroup_of_one_node_is_removed_without_those_of_others(tmp_path):
    for node in ("cpu-0", "rtx-0"):
        (tmp_path / "epd" / node / "kubepods").mkdir(parents=True)
    cgroups.remove("epd", "rtx-0", where=cgroups.Hierarchies(version=1, roots=(), beside=(tmp_path,)))
    assert [entry.name for entry in (tmp_path / "epd").iterdir()] == ["cpu-0"]


def test_removing_cgroups_that_do_not_exist_is_no_error(tmp_path):
    assert cgroups.remove("epd", where=cgroups.Hierarchies(version=1, roots=(tmp_path,))) == []
