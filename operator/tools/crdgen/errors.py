"""The error of the compiler."""

from __future__ import annotations


class CompileError(ValueError):
    """A model cannot be expressed as a structural schema.

    Attributes:
        path: path of the field, such as ``spec.pools[].gpu``.
        problem: what is not supported, and what to use instead.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path or '(root)'}: {problem}")
