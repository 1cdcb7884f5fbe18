"""headrace topic show"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.options import Data, Debug, Json, given
from headrace.cli.target import place_without_import, split
from headrace.cli.topic.common import opened
from headrace.schema import ddl

NAME = "show"


def command(
    arguments: Annotated[list[str], typer.Argument(metavar="[APP] NAME")],
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """A topic: its columns, and the offsets and files of its partitions.

    \b
    Example:
      headrace topic show events
    """
    app, (name,) = split(arguments, ["NAME"])
    place = place_without_import(app, given(data=data, debug=debug))
    topic = opened(place, name)
    spec, stats = topic.spec, topic.stats()
    partitions = [
        {"partition": n, "start": p.start, "end": p.end, "sealed": p.segments_sealed, "hot": p.segments_hot, "bytes": p.bytes}
        for n, p in enumerate(stats.partitions)
    ]
    facts = {
        "name": spec.name,
        "id": spec.id,
        "schema": ddl(spec.schema),
        "partition_by": list(spec.partition_by),
        "event_time": spec.event_time,
        "rows": stats.rows,
        "bytes": stats.bytes,
        "position": topic.position().token,
    }
    if json:
        output.answer({**facts, "partitions": partitions}, app=place.app)
        return
    for fact, value in facts.items():
        output.say(f"{fact:13}{', '.join(value) if isinstance(value, list) else '' if value is None else value}".rstrip())
    output.say("")
    output.table(list(partitions[0]), [list(p.values()) for p in partitions], right=list(partitions[0]))
