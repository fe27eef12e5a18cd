"""Additional arguments of a process, and the rule for flags that are reserved for the operator."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from epd_operator.api.markers import Rule
from epd_operator.backends.registry import OWNED_FLAGS

_FLAG = "self.find('^--?[A-Za-z][-_A-Za-z0-9]*').replace('_', '-').replace('--no-', '--')"
"""CEL: the flag at the start of an argument, as the parsers read it.

vLLM reads underscores as dashes (vllm/utils/argparse_utils.py), and flags without a value also exist as --no-FLAG
(argparse.BooleanOptionalAction). A flag ends at '=', at the '.' of vLLM's nested options, or at white space.
"""


_OWNED = f"{list(OWNED_FLAGS)}.filter(f, f == flag || (f != '--config' && f.startsWith(flag)))"
"""CEL: the owned flags that ``flag`` is or abbreviates.

argparse accepts every unambiguous beginning of a flag. vLLM recognises --config by its full name only.
"""

# The flag is in a list of one item, so that its cost counts once: CEL has no local variables here.
Argument = Annotated[
    str,
    Field(max_length=4096),
    Rule(
        expression=f"[{_FLAG}].all(flag, flag.size() < 2 || {_OWNED}.size() == 0)",
        message="this flag is, or abbreviates, a flag that only the operator sets: remove it",
        message_expression=f"[{_FLAG}].map(flag, flag + ' is, or abbreviates, a flag that only the operator sets: ' + "
        f"{dict(OWNED_FLAGS)}[{_OWNED}[0]])[0]",
    ),
]
Arguments = Annotated[list[Argument], Field(max_length=64)]
