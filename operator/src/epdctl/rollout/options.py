"""Options that all commands of ``epdctl rollout`` have, with the names that they have in kubectl."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the EPDDeployment.", show_default=False)]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig to use instead of $KUBECONFIG.")
]
Context = Annotated[str, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace; default: that of the context.")
]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Options of a command; empty values mean those of kubectl.

    Attributes:
        kubeconfig: path of a kubeconfig.
        context: name of a context in the kubeconfig.
        namespace: namespace of the object.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        """The options that were given, for commands that follow."""
        given = (("-n", self.namespace), ("--context", self.context), ("--kubeconfig", self.kubeconfig))
        return "".join(f" {option} {shlex.quote(value)}" for option, value in given if value)
