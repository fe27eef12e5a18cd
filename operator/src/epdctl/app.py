"""All commands of ``epdctl``.

Exit codes: 0 if the command did what was asked; 1 if the cluster did not allow it; 2 if its input was wrong. A message
says what to change.
"""

from __future__ import annotations

from typing import Annotated

import typer

from epd_operator import __version__
from epdctl.convert_trace import convert_trace
from epdctl.estimate import estimate
from epdctl.rollout.commands import rollout
from epdctl.simulate import simulate

app = typer.Typer(
    help="Decide how to serve a multimodal model with epd-operator.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(estimate)
app.add_typer(rollout, name="rollout")
app.command()(simulate)
app.command()(convert_trace)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Without this function typer would make the only command the whole program."""
