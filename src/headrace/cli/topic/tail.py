"""headrace topic tail"""

from __future__ import annotations

import time
from typing import Annotated

import pyarrow as pa
import typer

from headrace.cli import output
from headrace.cli.options import Data, Debug, Json, given
from headrace.cli.target import place_without_import, split
from headrace.cli.topic.common import opened
from headrace.log.topic import Topic

NAME = "tail"
_POLL_S = 0.05
_ROWS_AT_ONCE = 10_000


def command(
    arguments: Annotated[list[str], typer.Argument(metavar="[APP] NAME")],
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the newest rows, per partition.")] = 10,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with rows as they come, until Ctrl-C.")] = False,
    partition: Annotated[int | None, typer.Option(help="Only this partition.")] = None,
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """The newest rows of a topic as JSON lines, unusable ones with their reason.

    \b
    Example:
      headrace topic tail events --lines 3
      headrace topic tail events --follow | jq .action
    """
    app, (name,) = split(arguments, ["NAME"])
    topic = opened(place_without_import(app, given(data=data, debug=debug)), name)
    starts, ends = topic.starts(), topic.ends()
    chosen = [n for n in range(len(ends)) if partition is None or n == partition]
    at = {n: max(starts[n], ends[n] - lines) for n in chosen}
    _print(topic, at, ends)
    while follow:
        time.sleep(_POLL_S)
        _print(topic, at, topic.ends())


def _print(topic: Topic, at: dict[int, int], ends: tuple[int, ...]) -> None:
    for number in at:
        while at[number] < ends[number]:
            stop = min(ends[number], at[number] + _ROWS_AT_ONCE)
            for row in _rows(topic.read(number, at[number], stop)):
                output.line(row)
            at[number] = stop


def _rows(read: pa.Table) -> list[dict[str, object]]:
    """Rows without the hidden columns that are null."""
    rows = read.drop_columns(["_appended"]).to_pylist()
    return [{name: value for name, value in row.items() if value is not None or not _hidden(name)} for row in rows]


def _hidden(column: str) -> bool:
    return column in ("_extra", "_reason", "_message", "_raw")
