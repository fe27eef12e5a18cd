"""The flags that only the operator sets are held against the parsers of the pinned Dynamo and vLLM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epd_operator.backends.registry import OWNED_FLAGS, OWNED_VARIABLE_PREFIXES, OWNED_VARIABLES
from support import engine_flags
from support.engine_flags import Option, Parser

LOCK = Path(__file__).parents[3] / "worker_images" / "requirements.lock"
PARSERS = engine_flags.parsers()
OF_THE_PARSER_ITSELF = {"--config"}
"""vLLM reads it before its parser does: vllm/utils/argparse_utils.py."""


def is_owned(option: Option) -> bool:
    return bool(set(option.flags) & set(OWNED_FLAGS))


def is_owned_variable(name: str) -> bool:
    return name in OWNED_VARIABLES or name.startswith(OWNED_VARIABLE_PREFIXES)


def test_the_flags_are_those_of_the_versions_in_the_worker_image() -> None:
    pinned = dict(re.findall(r"^([a-z-]+)==(\S+)", LOCK.read_text(), flags=re.MULTILINE))
    found = engine_flags.versions()
    assert found == {name: pinned[name] for name in found}


def test_every_owned_flag_exists() -> None:
    known = {flag for parser in PARSERS for option in parser.options for flag in option.flags}
    assert set(OWNED_FLAGS) - OF_THE_PARSER_ITSELF <= known


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_all_spellings_of_an_owned_flag_are_owned(parser: Parser) -> None:
    owned = [option for option in parser.options if is_owned(option)]
    assert owned
    # The rule of the API reads --no-FLAG as --FLAG.
    spellings = {flag.replace("--no-", "--") for option in owned for flag in option.flags}
    assert spellings <= set(OWNED_FLAGS)


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.name)
def test_a_flag_is_owned_exactly_if_the_variable_with_its_meaning_is(parser: Parser) -> None:
    differing = [
        option
        for option in parser.options
        if option.variable and is_owned(option) != is_owned_variable(option.variable)
    ]
    assert differing == []
