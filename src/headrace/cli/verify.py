"""headrace verify"""

from __future__ import annotations

import typer

from headrace.cli import logs, output
from headrace.cli.loading import load
from headrace.cli.options import AppArgument, Data, Debug, Json, StoreAt, given
from headrace.cli.progress import steps
from headrace.cli.target import split

NAME = "verify"


def command(app: AppArgument = None, data: Data = None, store: StoreAt = None, json: Json = False, debug: Debug = False) -> None:
    """Prove that the tables are what the untouched functions give over all rows of the committed prefix. The app may run.

    Ends with 0 when they are, with 1 when anything differs.

    \b
    Example:
      headrace verify
    """
    loaded = load(split(app or [])[0], given(data=data, store=store, debug=debug))
    logs.set_up(json=json, debug=loaded.settings.debug)
    from headrace.verify import verify  # starts Spark's Python side, which light commands need not wait for

    with steps("verify") as tell:
        report = verify(loaded.definition, loaded.place, loaded.settings, progress=tell)
    document = report.as_json()
    if json:
        output.answer(document, app=loaded.app.name, epoch=report.epoch)
    else:
        _show(document, report.epoch)
    if not report.ok:
        raise typer.Exit(1)


def _show(document: dict, epoch: int) -> None:  # type: ignore[type-arg]
    tables, sources = document.get("tables", []), document.get("sources", [])
    if tables:
        columns = ["name", "rows", "different", "tied", "tolerance_used"]
        output.table(columns, [[table.get(column) for column in columns] for table in tables], right=columns[1:4])
        for table in tables:
            for first in table.get("first", ()):
                output.say(f"  {table['name']} {first.get('key')}: live {first.get('live')}, batch {first.get('batch')}")
    if sources:
        output.say("")
        columns = ["source", "table", "rows", "used", "rejects"]
        output.table(columns, [[source.get(column) for column in columns] for source in sources], right=columns[2:])
    for finding in document.get("findings", ()):
        output.say(f"wrong: {finding}")
    output.say("")
    output.say(f"epoch {epoch}: " + ("live tables = batch answer" if document["ok"] else "NOT the batch answer"))
