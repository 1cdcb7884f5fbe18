"""headrace table rejects"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.options import Data, Debug, Json, StoreAt, given
from headrace.cli.reading import reading
from headrace.cli.target import place_without_import, split

NAME = "rejects"


def command(
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[APP] [NAME]", help="Only what this table left out.")] = None,
    source: Annotated[str | None, typer.Option(help="Only rows of this topic.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only rows with this reason.")] = None,
    after: Annotated[int, typer.Option(min=0, help="Only rows of epochs after this one.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="At most so many.")] = 100,
    data: Data = None,
    store: StoreAt = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Rows that could not be used: where they stand, and why. A row without a table is unusable for all.

    \b
    Example:
      headrace table rejects
      headrace table rejects --source events --reason type
    """
    app, rest = split(arguments or [], more=True)
    place = place_without_import(app, given(data=data, store=store, debug=debug))
    with reading(place) as reader:
        epoch = reader.epoch
        found = reader.rejects(source=source, table=rest[0] if rest else None, reason=reason, after=after, limit=limit)
    columns = ["source", "partition", "offset", "table", "epoch", "step", "reason", "message", "raw"]
    if json:
        rejects = [{name: getattr(reject, name) for name in columns} for reject in found]
        output.answer({"rejects": rejects}, app=place.app, epoch=epoch)
        return
    rows = [[*(getattr(reject, name) for name in columns[:-1]), _beginning(reject.raw)] for reject in found]
    output.table(columns, rows, right=["partition", "offset", "epoch"])


def _beginning(raw: bytes | None) -> str:
    return "" if raw is None else ascii(raw[:60].decode("utf-8", "replace"))[1:-1]
