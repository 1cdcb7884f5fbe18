"""headrace table list"""

from __future__ import annotations

from headrace.cli import output
from headrace.cli.options import AppArgument, Data, Debug, Json, StoreAt, given
from headrace.cli.reading import reading
from headrace.cli.target import place_without_import, split

NAME = "list"


def command(app: AppArgument = None, data: Data = None, store: StoreAt = None, json: Json = False, debug: Debug = False) -> None:
    """The tables of the newest epoch, with the way each is kept and its rows.

    \b
    Example:
      headrace table list
    """
    place = place_without_import(split(app or [])[0], given(data=data, store=store, debug=debug))
    with reading(place) as reader:
        epoch, tables = reader.epoch, reader.tables()
    columns = ["lane", "rows", "key", "since", "history_from", "state"]
    if json:
        shown = [{"name": table.name, **{column: getattr(table, column) for column in columns}} for table in tables]
        output.answer({"tables": shown}, app=place.app, epoch=epoch)
        return
    rows = [(t.name, t.lane, t.rows, ", ".join(t.key or ()), t.since, t.history_from, t.state) for t in tables]
    output.table(["table", *columns], rows, right=["rows", "since", "history_from"])
