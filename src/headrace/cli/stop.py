"""headrace stop"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.options import AppArgument, Data, Debug, Json, given
from headrace.cli.target import place_without_import, split
from headrace.errors import WorldError
from headrace.running import running

NAME = "stop"
STOP_NOTE = "stop"
_POLL_S = 0.05


def command(
    app: AppArgument = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for its end.")] = 60.0,
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Stop the running app after the epoch at work, and wait until it has ended.

    \b
    Example:
      headrace stop
    """
    place = place_without_import(split(app or [])[0], given(data=data, debug=debug))
    found = running(place)
    if found is None:
        _show(json, place.app, stopped=False, pid=None, text=f"{place.app} is not running")
        return
    if not found.process.near:
        raise WorldError(f"{place.app} runs on another machine ({found.process})", hint="headrace stop there")
    place.run.mkdir(parents=True, exist_ok=True)
    (place.run / STOP_NOTE).write_text(f"{found.process.pid}\n")
    with contextlib.suppress(ProcessLookupError):
        os.kill(found.process.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while found.process.alive:
        if time.monotonic() > deadline:
            raise WorldError(
                f"{place.app} ({found.process}) has not ended after {timeout:g} s",
                hint=f"wait longer, or kill -9 {found.process.pid}: nothing is lost",
            )
        time.sleep(_POLL_S)
    _show(json, place.app, stopped=True, pid=found.process.pid, text=f"stopped {place.app} ({found.process})")


def _show(json: bool, app: str, *, stopped: bool, pid: int | None, text: str) -> None:
    if json:
        output.answer({"stopped": stopped, "pid": pid}, app=app)
    else:
        output.say(text)
