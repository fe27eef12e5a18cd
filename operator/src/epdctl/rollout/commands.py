"""The commands of ``epdctl rollout``, named as those of ``kubectl rollout``.

The client of Kubernetes takes seconds to import, so each command imports it when it runs: no other command, and no
completion in a shell, waits for it.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import Annotated

import typer

from epdctl.output import Format
from epdctl.rollout.options import Context, Kubeconfig, Name, Namespace, Place

rollout = typer.Typer(
    help="Show, undo and pause rollouts of an EPDDeployment.", no_args_is_help=True, rich_markup_mode=None
)


@rollout.command()
def status(
    *,
    name: Name,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow the rollout until it is complete.")] = False,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="With --watch: longest time to wait; 0 for no limit.")
    ] = 0,
    output: Annotated[
        Format, typer.Option("--output", "-o", help="Format of the result. --watch prints text only.")
    ] = Format.TABLE,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    """Show the revisions that have pods, and what the rollout waits for.

    With --watch, the exit code is 0 if the rollout is complete, and 1 if a person has to act: the object is stalled,
    the rollout is paused, a stage has exceeded its deadline, or --timeout is over.
    """
    from epdctl.rollout import actions

    place = Place(kubeconfig=kubeconfig, context=context, namespace=namespace)
    if watch and output is not Format.TABLE:
        raise typer.BadParameter("--watch prints text only: use one of the two", param_hint="--output")
    if watch:
        actions.watch(name, place, timeout_seconds=timeout)
    else:
        actions.show_status(name, place, output=output)


@rollout.command()
def history(
    *,
    name: Name,
    revision: Annotated[
        int | None, typer.Option(min=1, metavar="NUMBER", help="Show the whole spec of this record.")
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="With --revision: show values of variables and of secret arguments.")
    ] = False,
    output: Annotated[Format, typer.Option("--output", "-o", help="Format of the result.")] = Format.TABLE,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    """List the recorded specs, the latest last, with what each changed."""
    from epdctl.rollout import actions

    place = Place(kubeconfig=kubeconfig, context=context, namespace=namespace)
    if revision is None:
        actions.show_history(name, place, output=output)
    else:
        actions.show_record(name, place, number=revision, with_values=show_values, output=output)


@rollout.command()
def undo(
    *,
    name: Name,
    to_revision: Annotated[
        int | None,
        typer.Option(min=1, metavar="NUMBER", help="Record to return to; default: the one before the present spec."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, after a dry run at the API server.")
    ] = False,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
) -> None:
    """Set the spec back to a recorded one. spec.rollout stays as it is."""
    from epdctl.rollout import actions

    place = Place(kubeconfig=kubeconfig, context=context, namespace=namespace)
    actions.undo_rollout(name, place, number=to_revision, dry_run=dry_run)


@rollout.command()
def pause(*, name: Name, namespace: Namespace = "", context: Context = "", kubeconfig: Kubeconfig = "") -> None:
    """Stop rollouts where they are. Stages are still scaled."""
    from epdctl.rollout import actions

    actions.set_paused(name, Place(kubeconfig=kubeconfig, context=context, namespace=namespace), paused=True)


@rollout.command()
def resume(*, name: Name, namespace: Namespace = "", context: Context = "", kubeconfig: Kubeconfig = "") -> None:
    """Continue rollouts that are paused."""
    from epdctl.rollout import actions

    actions.set_paused(name, Place(kubeconfig=kubeconfig, context=context, namespace=namespace), paused=False)
