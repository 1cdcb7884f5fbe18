"""headrace topic delete"""

from __future__ import annotations

import shutil
import uuid
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.options import Data, Debug, Json, given
from headrace.cli.target import place_without_import, split
from headrace.cli.topic.common import opened
from headrace.errors import UsageError
from headrace.running import refuse_while_running

NAME = "delete"


def command(
    arguments: Annotated[list[str], typer.Argument(metavar="[APP] NAME")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete a topic with all its rows. Tables that were made from it can no longer be rebuilt or verified.

    \b
    Example:
      headrace topic delete events --yes
    """
    app, (name,) = split(arguments, ["NAME"])
    place = place_without_import(app, given(data=data, debug=debug))
    refuse_while_running(place, "deleting a topic")
    topic = opened(place, name)
    rows = topic.stats().rows
    if not yes and (json or not typer.confirm(f"Delete {topic.spec.name} with {rows:,} rows?")):
        raise UsageError("nothing was deleted", hint="--yes")
    # Renamed first: a deletion that dies half-way leaves no half topic under its name.
    place.tmp.mkdir(parents=True, exist_ok=True)
    doomed = place.tmp / f"deleted-{uuid.uuid4().hex}"
    topic.folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
    if json:
        output.answer({"deleted": topic.spec.name, "rows": rows}, app=place.app)
    else:
        output.say(f"deleted {topic.spec.name} ({rows:,} rows)")
