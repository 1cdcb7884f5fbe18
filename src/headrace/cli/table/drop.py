"""headrace table drop"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.options import Data, Debug, Json, StoreAt, given
from headrace.cli.reading import reading
from headrace.cli.target import place_without_import, split
from headrace.cli.topic.common import names
from headrace.errors import UsageError
from headrace.place import Place
from headrace.running import refuse_while_running
from headrace.store.fence import RunFolder, take_over
from headrace.store.marks import Marks

NAME = "drop"


def command(
    arguments: Annotated[list[str], typer.Argument(metavar="[APP] NAME")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    data: Data = None,
    store: StoreAt = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete a table that the app no longer defines, with its history. Until then it is only hidden.

    \b
    Example:
      headrace table drop opens --yes
    """
    app, (name,) = split(arguments, ["NAME"])
    place = place_without_import(app, given(data=data, store=store, debug=debug))
    refuse_while_running(place, "dropping a table")
    with reading(place) as reader:
        known = {table.name.lower(): table for table in reader.tables()}
    table = known.get(name.lower())
    if table is None:
        removed = ", ".join(t.name for t in known.values() if t.state == "removed")
        raise UsageError(f'there is no table "{name}"', hint=f"one of {removed}" if removed else None)
    if table.state != "removed":
        raise UsageError(
            f'table "{table.name}" is defined by the app',
            hint="remove its definition and run the app: then it is hidden, and may be dropped",
        )
    if not yes and (json or not typer.confirm(f"Delete {table.name} with {table.rows:,} rows and their history?")):
        raise UsageError("nothing was deleted", hint="--yes")
    _drop(place, table.name)
    if json:
        output.answer({"dropped": table.name, "rows": table.rows}, app=place.app)
    else:
        output.say(f"dropped {table.name} ({table.rows:,} rows)")


def _drop(place: Place, name: str) -> None:
    """As the generation at work, for this one moment: an app that starts meanwhile must not find half of it."""
    topics = [place.topic(topic) for topic in names(place)]
    marked = [topic for topic in topics if (topic / "readers" / place.app).exists()]
    holder = take_over(place.store, Marks(place.folder, place.app, marked), RunFolder(place.run))
    try:
        owned = [physical for physical, r in holder.store.registrations().items() if r.spec.name == name and r.state == "removed"]
        holder.store.drop(holder.generation, owned)
        holder.release()
    finally:
        holder.store.close()
