"""The list of flags that other tests read is that of the pinned Dynamo and vLLM."""

from __future__ import annotations

from support import engine_flags


def test_the_list_of_flags_is_current() -> None:
    assert engine_flags.FILE.read_text() == engine_flags.generated(), "run `make engine-flags`"
