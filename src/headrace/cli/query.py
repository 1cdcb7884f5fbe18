"""headrace query"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.options import Data, Debug, Json, StoreAt, given
from headrace.cli.reading import reading, show
from headrace.cli.target import place_without_import, split
from headrace.errors import NotAvailable

NAME = "query"


def command(
    arguments: Annotated[list[str], typer.Argument(metavar='[APP] "SELECT ..."')],
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="EPOCH|TIME", help="Tables as they were then.")] = None,
    spark: Annotated[bool, typer.Option("--spark", hidden=True)] = False,
    data: Data = None,
    store: StoreAt = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """SQL (SQLite's) over the tables of one epoch. A window column `hour` is `hour_start` and `hour_end`.

    \b
    Example:
      headrace query "SELECT action, sum(n) FROM actions_per_hour GROUP BY action"
      headrace query --as-of 120 "SELECT * FROM opens"
    """
    if spark:
        raise NotAvailable(
            "query --spark is not available in this version", hint="SQL as SQLite speaks it, or app.read(...).to_spark()"
        )
    app, (sql,) = split(arguments, ["SQL"])
    place = place_without_import(app, given(data=data, store=store, debug=debug))
    with reading(place) as reader:
        answer = reader.query(sql, as_of=as_of)
    show(answer, place, json=json)
