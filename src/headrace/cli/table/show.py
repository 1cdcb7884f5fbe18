"""headrace table show"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.options import Data, Debug, Json, StoreAt, given
from headrace.cli.reading import reading, show
from headrace.cli.target import place_without_import, split

NAME = "show"


def command(
    arguments: Annotated[list[str], typer.Argument(metavar="[APP] NAME")],
    where: Annotated[str | None, typer.Option(help="Only rows for which this SQL condition holds.")] = None,
    order: Annotated[str | None, typer.Option(help="Columns to sort by, as after ORDER BY.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many rows.")] = 100,
    as_of: Annotated[str | None, typer.Option("--as-of", metavar="EPOCH|TIME", help="The table as it was then.")] = None,
    data: Data = None,
    store: StoreAt = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Rows of a table.

    \b
    Example:
      headrace table show actions_per_hour --where "action = 'open'" --limit 5
    """
    app, (name,) = split(arguments, ["NAME"])
    place = place_without_import(app, given(data=data, store=store, debug=debug))
    with reading(place) as reader:
        answer = reader.table(name, as_of=as_of, where=where, order=order, limit=limit)
    show(answer, place, json=json)
