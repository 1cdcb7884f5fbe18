"""headrace batch"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import logs, output
from headrace.cli.loading import load
from headrace.cli.options import AppArgument, Data, Debug, Json, StoreAt, given
from headrace.cli.progress import steps
from headrace.cli.target import split
from headrace.errors import NotAvailable

NAME = "batch"


def command(
    app: AppArgument = None,
    into_app: Annotated[bool, typer.Option("--into-app", hidden=True)] = False,
    data: Data = None,
    store: StoreAt = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the same functions once, as plain batch jobs over all rows there are, into batch.db.

    \b
    Example:
      headrace batch
      sqlite3 headrace-data/phone_actions/batch.db "SELECT * FROM actions_per_hour"
    """
    if into_app:
        raise NotAvailable("batch --into-app is not available in this version")
    loaded = load(split(app or [])[0], given(data=data, store=store, debug=debug))
    logs.set_up(json=json, debug=loaded.settings.debug)
    from headrace.batch import run_batch  # starts Spark's Python side, which light commands need not wait for

    with steps("batch") as tell:
        report = run_batch(loaded.definition, loaded.place, loaded.settings, progress=tell)
    if json:
        tables = [{"name": name, "rows": rows} for name, rows in report.tables]
        output.answer({"tables": tables, "path": str(report.path)}, app=loaded.app.name)
        return
    output.table(["table", "rows"], report.tables, right=["rows"])
    output.note(f"in {report.path}")
