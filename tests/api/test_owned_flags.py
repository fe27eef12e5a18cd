"""The API server refuses every spelling of an owned flag that Dynamo and vLLM accept, and no other flag of theirs."""

from __future__ import annotations

import pytest

from epd_operator.api.v1alpha1.epddeployment import GROUP, PLURAL, VERSION
from epd_operator.backends.registry import OWNED_FLAGS
from support.apiserver import ApiServer
from support.bad_objects import OWNED_FLAG, deployment
from support.engine_flags import Option, Parser, parsers

COLLECTION = f"/apis/{GROUP}/{VERSION}/namespaces/default/{PLURAL}"
MAX_ARGUMENTS = 64


def is_owned(option: Option) -> bool:
    return bool(set(option.flags) & set(OWNED_FLAGS))


def spellings(words: set[str]) -> list[str]:
    """Each word alone, with a value, and with underscores, which vLLM reads as dashes."""
    with_underscores = {"--" + word[2:].replace("-", "_") for word in words if word.startswith("--")}
    return sorted({form for word in words | with_underscores for form in (word, f"{word}=1")})


def refused(api_server: ApiServer, arguments: list[str]) -> set[str]:
    """The arguments that the API server refuses as flags of the operator."""
    found = set()
    for start in range(0, len(arguments), MAX_ARGUMENTS):
        part = arguments[start : start + MAX_ARGUMENTS]
        answer = api_server.client.create(COLLECTION, deployment(changes={"runtime.args": part}), dry_run=True)
        for field, message in answer.causes:
            assert OWNED_FLAG in message, answer.message
            found.add(part[int(field.removeprefix("spec.runtime.args[").removesuffix("]"))])
        assert answer.ok or answer.causes, answer.message
    return found


@pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.name)
def test_every_accepted_spelling_of_an_owned_flag_is_refused(api_server: ApiServer, parser: Parser) -> None:
    full = {flag for option in parser.options if is_owned(option) for flag in option.flags}
    short = {word for word, option in parser.accepted_abbreviations().items() if is_owned(option)}
    assert bool(short) == parser.abbreviations
    words = spellings(full | short)
    assert refused(api_server, words) == set(words)


@pytest.mark.parametrize("parser", parsers(), ids=lambda parser: parser.name)
def test_every_other_flag_can_be_set(api_server: ApiServer, parser: Parser) -> None:
    others = spellings({flag for option in parser.options if not is_owned(option) for flag in option.flags})
    assert len(others) > 100
    assert refused(api_server, others) == set()
