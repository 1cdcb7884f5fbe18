"""headrace table history"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headrace.cli import output
from headrace.cli.options import Data, Debug, Json, StoreAt, given
from headrace.cli.reading import reading
from headrace.cli.target import place_without_import, split
from headrace.reading import kept_from

NAME = "history"


def command(
    arguments: Annotated[list[str], typer.Argument(metavar="[APP] NAME [KEY...]")],
    after: Annotated[int | None, typer.Option(min=0, help="Without a key: changes after this epoch.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many, the newest.")] = 100,
    data: Data = None,
    store: StoreAt = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """How a row came to be: its versions with the epochs that wrote them. Without a key: the changes of all rows.

    A window in a key is its start.

    \b
    Example:
      headrace table history actions_per_hour open 2026-01-01T10:00:00Z
      headrace table history opens --after 120
    """
    app, (name, *key) = split(arguments, ["NAME"], more=True)
    place = place_without_import(app, given(data=data, store=store, debug=debug))
    with reading(place) as reader:
        epoch = reader.epoch
        found: list[dict[str, Any]]
        if key:
            versions = reader.history(name, key)
            found = [{"from": v.since, "to": v.until, "row": v.row} for v in versions][-limit:]
        else:
            start = after if after is not None else kept_from(reader, name)
            changes = reader.changes(name, after=start)[-limit:]
            found = [{"epoch": c.epoch, "key": c.key, "before": c.before, "after": c.after} for c in changes]
    if json:
        output.answer({"versions" if key else "changes": found}, app=place.app, epoch=epoch)
    elif found:
        output.table(list(found[0]), [list(one.values()) for one in found], right=["from", "to", "epoch"])
