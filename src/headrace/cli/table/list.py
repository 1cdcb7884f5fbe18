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
        epoch = reader.epoch
        tables = [
            {
                "name": t.name,
                "lane": t.lane,
                "rows": t.rows,
                "key": t.key,
                "since": t.since,
                "history_from": t.history_from,
                "state": t.state,
            }
            for t in reader.tables()
        ]
    if json:
        output.answer({"tables": tables}, app=place.app, epoch=epoch)
        return
    rows = [[*list(t.values())[:3], ", ".join(t["key"]) if t["key"] else "", *list(t.values())[4:]] for t in tables]
    columns = ["table", "lane", "rows", "key", "since", "history_from", "state"]
    output.table(columns, rows, right=["rows", "since", "history_from"])
