"""The saved configuration and its mounts."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath

import pytest

from epd_local.cluster.config import Mount, load, parse_mount
from epd_local.cluster.nodes import place
from epd_local.errors import LocalClusterError


def test_a_saved_configuration_is_read_back_unchanged(config):
    config.save()
    assert load(config.state) == config


def test_nodes_keep_their_index_across_a_save(config):
    more = dataclasses.replace(config, nodes=place(["rtx-7"], existing=config.nodes))
    more.save()
    found = load(config.state)
    assert found is not None
    assert found.node("rtx-7").address == more.node("rtx-7").address


def test_before_the_first_start_there_is_no_configuration(tmp_path):
    assert load(tmp_path) is None


def test_an_unknown_node_is_refused_with_the_known_nodes(config):
    with pytest.raises(LocalClusterError, match="gb200-0, gb200-1, rtx-0, cpu-0"):
        config.node("gb200-9")


def test_a_mount_can_have_a_colon_in_the_path_of_the_machine():
    assert parse_mount("/srv/a:b:/opt/epd/models") == Mount(Path("/srv/a:b"), PurePosixPath("/opt/epd/models"))


@pytest.mark.parametrize(
    "text",
    ["/srv", "srv:/opt/epd/x", "/srv:/opt/other/x", "/srv:/opt/epd", "/srv:/opt/epd/", "/srv:/opt/epd/a/b",
     "/srv:/opt/epd/..", "/srv:/opt/epd/.", ":/opt/epd/x", ""],
)  # fmt: skip
def test_an_invalid_mount_is_refused(text):
    with pytest.raises(LocalClusterError, match="/opt/epd/NAME"):
        parse_mount(text)
