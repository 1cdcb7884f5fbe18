"""headrace run"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Annotated, Any

import typer

from headrace.cli import logs, output
from headrace.cli.loading import load
from headrace.cli.options import AppArgument, Data, Debug, Json, StoreAt, given
from headrace.cli.stop import STOP_NOTE
from headrace.cli.target import split
from headrace.live import Run

NAME = "run"


def command(
    app: AppArgument = None,
    once: Annotated[bool, typer.Option("--once", help="Take what is there now, and end.")] = False,
    restored: Annotated[bool, typer.Option("--restored", help="Go on from a store that came from a backup.")] = False,
    spark_master: Annotated[
        str | None, typer.Option("--spark-master", help="Where Spark runs; default: all cores of this machine.")
    ] = None,
    data: Data = None,
    store: StoreAt = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Keep the tables up to date, until stopped with Ctrl-C or `headrace stop`.

    \b
    Example:
      headrace run
      headrace run app.py --once
    """
    loaded = load(split(app or [])[0], given(data=data, store=store, spark_master=spark_master, debug=debug))
    logs.set_up(json=json, debug=loaded.settings.debug)
    from headrace.runtime.runner import Runner  # starts Spark's Python side, which light commands need not wait for

    reporter = logs.Reporter(debug=loaded.settings.debug)
    runner = Runner(loaded.definition, loaded.place, loaded.settings, report=reporter)
    ended_by: list[int] = []

    def end(number: int, _: FrameType | None) -> None:
        """The first signal stops after the epoch at work; a second one of Ctrl-C does not wait for it."""
        if ended_by and number == signal.SIGINT:
            raise KeyboardInterrupt
        ended_by.append(number)
        runner.stop()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    stop_note = loaded.place.run / STOP_NOTE
    stop_note.unlink(missing_ok=True)
    try:
        Run(runner, loaded.place, once=once, restored=restored).begin().join()
    finally:
        reporter.flush()
        for number, handler in before.items():
            signal.signal(number, handler)
    if json:
        output.answer(_ended(runner), app=loaded.app.name)
    # `headrace stop` leaves a note before its signal: a run that was asked to end has ended well.
    if ended_by and not stop_note.exists():
        raise typer.Exit(128 + ended_by[0])
    stop_note.unlink(missing_ok=True)


def _ended(runner: Any) -> dict[str, Any]:
    status = runner.status()
    return status if isinstance(status, dict) else status.as_json()
