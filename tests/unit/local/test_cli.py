"""The command line: accepted and refused arguments."""

from __future__ import annotations

import pytest

from epd_local.cli import COMMANDS, command_words, main, parser
from epd_local.errors import LocalClusterError


def parse(*words):
    return parser().parse_args(words)


def test_every_command_of_the_parser_can_be_run():
    (commands,) = (action for action in parser()._actions if action.dest == "command")
    assert set(commands.choices) == set(COMMANDS)


def test_start_takes_nodes_and_repeated_mounts():
    arguments = parse("start", "--nodes", "gb200-0,cpu-1", "--mount", "/a:/opt/epd/a", "--mount", "/b:/opt/epd/b")
    assert arguments.nodes == ["gb200-0", "cpu-1"]
    assert arguments.mount == ["/a:/opt/epd/a", "/b:/opt/epd/b"]


def test_start_without_options_has_empty_lists_of_nodes_and_mounts():
    assert (parse("start").nodes, parse("start").mount) == ([], [])


@pytest.mark.parametrize("words", [("start", "--nodes", "h100-0"), ("node", "x"), ("crash", "cpu"), ("image", "other")])
def test_unknown_names_are_refused_by_the_parser(words, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(*words)
    assert ended.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("exec", "rtx-0", "--", "ls", "-l"), ("exec", "rtx-0", "ls", "-l")])
def test_a_command_to_execute_can_have_its_own_options_with_or_without_a_double_dash(words):
    assert command_words(parse(*words).words) == ["ls", "-l"]


def test_a_double_dash_within_a_command_is_kept():
    assert command_words(parse("exec", "rtx-0", "--", "env", "--", "x").words) == ["env", "--", "x"]


def test_exec_without_a_command_is_refused():
    with pytest.raises(LocalClusterError, match="needs a command"):
        command_words(parse("exec", "rtx-0").words)


def test_expose_uses_port_8000_by_default():
    assert parse("expose", "default/demo:80").local_port == 8000


def test_an_error_gives_one_message_and_an_exit_code(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("EPD_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("EPD_CACHE", str(tmp_path / "cache"))
    assert main(["build", "nothing-of-that-name"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: there is no binary 'nothing-of-that-name'; choose from controlplane")


def test_printing_a_path_builds_nothing(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("EPD_CACHE", str(tmp_path))
    assert main(["build", "--print", "controlplane"]) == 0
    assert capsys.readouterr().out.strip().endswith("/controlplane")
    assert list(tmp_path.iterdir()) == []
