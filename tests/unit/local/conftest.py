"""Fixtures of the tests of the local cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from epd_local.cluster.config import ClusterConfig, parse_mount
from epd_local.cluster.nodes import DEFAULT_NODES, place


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    """A configuration with its state in the temporary folder of the test."""
    return ClusterConfig(
        name="epd-test",
        state=tmp_path,
        data=tmp_path / "data",
        binaries={"controlplane": "/b/controlplane", "coredns": "/b/coredns"},
        cni_folder="/usr/lib/cni",
        nodes=place(DEFAULT_NODES),
        mounts=(parse_mount("/srv/python:/opt/epd/python"),),
    )
