"""headrace status"""

from __future__ import annotations

from typing import Any

import typer

from headrace.apps import Apps
from headrace.cli import output
from headrace.cli.options import AppArgument, Data, Debug, Json, StoreAt, given
from headrace.cli.target import find, place_without_import, split
from headrace.cli.topic.common import names, opened
from headrace.place import Place
from headrace.running import failure, has_store, last_run
from headrace.store.reader import Reader

NAME = "status"


def command(app: AppArgument = None, data: Data = None, store: StoreAt = None, json: Json = False, debug: Debug = False) -> None:
    """Whether the app runs, at which epoch it is, and how far it has read. Ends with 1 when it does not run.

    \b
    Example:
      headrace status
    """
    argument = split(app or [])[0]
    target = find(argument)
    if Apps(target.project).find(target.key) is None:
        document, name = {**_unknown(), "error": f"{target.key} was never run here"}, None
    else:
        place = place_without_import(argument, given(data=data, store=store, debug=debug))
        document, name = status_of(place), place.app
    epoch = document.pop("epoch", None)
    if json:
        output.answer(document, app=name, epoch=epoch)
    else:
        _show(name, epoch, document)
    if document["state"] != "running":
        raise typer.Exit(1)


def status_of(place: Place) -> dict[str, Any]:
    """The app as its files tell: its last run, the newest epoch, and the ends of its topics."""
    run = last_run(place)
    error = failure(place)
    if run and not run.alive:
        error = f"{run.process} ended without a word, as after kill -9"
    state = "running" if run and run.alive else "failed" if error else "stopped"
    document = _unknown() | {
        "state": state,
        "pid": run.process.pid if run and run.alive else None,
        "generation": run.said.get("generation") if run else None,
        "error": error if state == "failed" else None,
    }
    used: dict[str, dict[int, int]] = {}
    if has_store(place):
        reader = Reader(place.store)
        try:
            document.update(_of_store(reader))
            used = reader.offsets()
        finally:
            reader.close()
    for name in names(place):
        ends = opened(place, name).ends()
        document["sources"] += [
            {"name": name, "partition": n, "end": end, "used": used.get(name, {}).get(n, 0)} for n, end in enumerate(ends)
        ]
    return document


def _unknown() -> dict[str, Any]:
    """The fields of every answer, as of an app of which nothing is known."""
    empty: dict[str, Any] = {"sources": [], "tables": [], "sinks": []}
    fields = ("pid", "generation", "epoch", "committed_at")
    return {"state": "stopped"} | dict.fromkeys(fields) | empty | dict.fromkeys(("url", "token_file", "error"))


def _of_store(reader: Reader) -> dict[str, Any]:
    head = reader.head()
    tables = [{"name": t.name, "lane": t.lane, "rows": t.rows} for t in reader.tables() if t.state == "live"]
    return {"epoch": head.epoch, "committed_at": reader.committed_at, "tables": tables}


def _show(name: str | None, epoch: int | None, document: dict[str, Any]) -> None:
    pid = f", process {document['pid']}" if document.get("pid") else ""
    at = f", epoch {epoch} of {output.shown(document['committed_at'])}" if epoch else ""
    output.say(f"{name or 'app'}: {document['state']}{pid}{at}")
    if document.get("error"):
        output.say(f"  {document['error']}")
    if document.get("tables"):
        output.say("")
        output.table(["table", "lane", "rows"], [list(t.values()) for t in document["tables"]], right=["rows"])
    if document.get("sources"):
        output.say("")
        rows = [(s["name"], s["partition"], s["end"], s["used"], s["end"] - s["used"]) for s in document["sources"]]
        output.table(["source", "partition", "end", "used", "waiting"], rows, right=["partition", "end", "used", "waiting"])
