"""Cache keys, toolchains and packages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from epd_local.builds import go, packages
from epd_local.builds.recipes import BINARIES, CLUSTER_BINARIES, binary_named, build_key, content_key
from epd_local.errors import LocalClusterError

FILES = [("go.mod", b"module x"), ("main.go", b"package main")]
COREDNS = binary_named("coredns")


def test_every_binary_comes_from_a_pinned_module_of_the_repository():
    for binary in BINARIES.values():
        assert (binary.module_folder / "go.mod").is_file()
        has_requirements = "require" in (binary.module_folder / "go.mod").read_text()
        assert (binary.module_folder / "go.sum").is_file() is has_requirements
    assert set(CLUSTER_BINARIES) <= set(BINARIES)


def test_the_key_does_not_depend_on_the_order_of_files():
    assert content_key(FILES, recipe=("1",)) == content_key(reversed(FILES), recipe=("1",))


@pytest.mark.parametrize(
    "other",
    [[("go.mod", b"module y"), FILES[1]], [FILES[0]], [("go.mo", b"dmodule x"), FILES[1]], [*FILES, ("x.go", b"")]],
)
def test_the_key_changes_with_any_file(other):
    assert content_key(other, recipe=("1",)) != content_key(FILES, recipe=("1",))


def test_the_key_changes_with_flags_and_platform():
    kubelet = binary_named("kubelet")
    keys = {
        build_key(COREDNS, files=FILES, platform="linux/amd64"),
        build_key(COREDNS, files=FILES, platform="linux/arm64"),
        build_key(kubelet, files=FILES, platform="linux/amd64"),
        build_key(replace(COREDNS, tags="small"), files=FILES, platform="linux/amd64"),
    }
    assert len(keys) == 4


def test_binaries_of_one_module_share_a_folder():
    names = ("controlplane", "kubelet", "kube-proxy")
    assert len({build_key(binary_named(name), files=FILES, platform="linux/amd64") for name in names}) == 1


@pytest.mark.parametrize(
    ("text", "version"),
    [("go version go1.26.8 linux/amd64", (1, 26)), ("go version go1.9 linux/arm", (1, 9)), ("", (0, 0)),
     ("gopher", (0, 0)), ("go version devel go1.27-abc linux/amd64", (1, 27))],
)  # fmt: skip
def test_the_version_of_go_is_read(text, version):
    assert go.go_version(text) == version


def test_a_build_needs_no_c_compiler_and_never_downloads_another_go():
    environment = go.go_environment({"PATH": "/bin", "GOOS": "plan9", "GOPROXY": "kept"}, go=Path("/go/bin/go"))
    assert environment["CGO_ENABLED"] == "0"
    assert environment["GOTOOLCHAIN"] == "local"
    assert environment["GOPROXY"] == "kept"
    assert "GOOS" not in environment
    assert environment["PATH"].startswith("/go/bin:")


def test_only_packages_that_are_not_installed_are_missing():
    lacking = packages.missing(packages.CLUSTER_PACKAGES, present=lambda package: package.name != "runc")
    assert [package.name for package in lacking] == ["runc"]


def test_missing_packages_without_root_are_refused_with_the_command_to_run(monkeypatch):
    monkeypatch.setattr(packages, "is_present", lambda _: False)
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(packages.shutil, "which", lambda *_, **__: "/usr/bin/apt-get")
    with pytest.raises(LocalClusterError, match=r"sudo apt-get install .*containerd"):
        packages._install(list(packages.CLUSTER_PACKAGES))


def test_without_apt_the_missing_packages_are_listed(monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda *_, **__: None)
    with pytest.raises(LocalClusterError, match="not a Debian-like system"):
        packages._install(list(packages.CLUSTER_PACKAGES))
