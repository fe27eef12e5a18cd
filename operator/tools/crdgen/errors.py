"""What the compiler says when a model cannot be told to the API server."""

from __future__ import annotations


class CompileError(ValueError):
    """Something in a model has no place in a structural schema.

    Attributes:
        path: where in the object, such as ``spec.pools[].gpu``.
        problem: what is there, and what to write instead.
    """

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{path or '(root)'}: {problem}")
