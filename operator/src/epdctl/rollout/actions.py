"""What the commands of ``epdctl rollout`` do: read or write through a session, and print the result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import typer

from epdctl.output import Format, as_data
from epdctl.rollout.follow import follow
from epdctl.rollout.options import Place
from epdctl.rollout.progress import progress_of
from epdctl.rollout.records import Entry, entry_numbered, history_of, shown_spec
from epdctl.rollout.session import Session, in_session, warn
from epdctl.rollout.text import change_lines, history_text, status_text
from epdctl.rollout.undo import Restored, undo


def show_status(name: str, place: Place, *, output: Format) -> None:
    """Print the state of the rollout."""
    progress = progress_of(in_session(name, place, Session.read))
    if output is Format.TABLE:
        typer.echo(status_text(name, progress))
    else:
        typer.echo(as_data(progress.as_data(), form=output))


def watch(name: str, place: Place, *, timeout_seconds: float) -> None:
    """Print the progress of the rollout until it is complete."""

    async def command(session: Session) -> None:
        await follow(
            session.read, timeout_seconds=timeout_seconds, echo=typer.echo, clock=time.monotonic, sleep=asyncio.sleep
        )

    in_session(name, place, command)
    typer.echo(f"the rollout of {name} is complete")


def show_history(name: str, place: Place, *, output: Format) -> None:
    """Print the records."""
    entries = in_session(name, place, _read_history)
    if output is Format.TABLE:
        typer.echo(history_text(entries, now=datetime.now(UTC)))
    else:
        typer.echo(as_data([entry.as_data() for entry in entries], form=output))


def show_record(name: str, place: Place, *, number: int, with_values: bool, output: Format) -> None:
    """Print the whole spec of a record."""

    async def command(session: Session) -> Entry:
        return entry_numbered(await _read_history(session), number)

    entry = in_session(name, place, command)
    form = Format.YAML if output is Format.TABLE else output
    typer.echo(as_data({"spec": shown_spec(entry, with_values=with_values)}, form=form))


async def _read_history(session: Session) -> Sequence[Entry]:
    live = await session.read()
    return history_of(live, await session.read_records(live))


def undo_rollout(name: str, place: Place, *, number: int | None, dry_run: bool) -> None:
    """Restore a recorded spec, and print what that changes."""

    async def command(session: Session) -> Restored:
        return await undo(session, number=number, dry_run=dry_run)

    done = in_session(name, place, command)
    record = f"record {done.entry.number}"
    if not done.changes:
        typer.echo(f"nothing to change: the spec of {name} is that of {record}")
        return
    if not done.entry.has_served:
        warn(f"requests were never answered with {record}")
    if done.altered:
        fields = ", ".join(change.path for change in done.altered)
        warn(f"the API server keeps other values than the record has, because of a policy or another CRD: {fields}")
    if done.applied_by:
        warn(f"{done.applied_by} applies {name} from Git: its next sync undoes this, so change it in Git as well")
    would = "would set" if dry_run else "set"
    typer.echo("\n".join((f"{would} the spec of {name} back to {record}:", *change_lines(done.changes))))
    if not dry_run:
        typer.echo(f"follow it with: epdctl rollout status {name}{place} --watch")


def set_paused(name: str, place: Place, *, paused: bool) -> None:
    """Pause rollouts or continue them."""

    async def command(session: Session) -> bool:
        if progress_of(await session.read()).is_paused is paused:
            return False
        await session.merge({"rollout": {"paused": paused}})
        return True

    state = "paused" if paused else "not paused"
    if not in_session(name, place, command):
        typer.echo(f"nothing to change: rollouts of {name} are {state} already")
        return
    hint = f": continue with epdctl rollout resume {name}{place}" if paused else ""
    typer.echo(f"rollouts of {name} are {state} now{hint}")
