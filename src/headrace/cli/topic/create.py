"""headrace topic create"""

from __future__ import annotations

from typing import Annotated

import typer

from headrace import validation
from headrace.cli import output
from headrace.cli.loading import load
from headrace.cli.options import Data, Debug, Json, given
from headrace.cli.target import split
from headrace.definitions import TopicDef
from headrace.errors import UsageError
from headrace.origin import Origin
from headrace.schema import ddl, parse_schema
from headrace.topics import open_topic

NAME = "create"


def command(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[APP] [NAME]", help="Without a name: all that the app declares.")
    ] = None,
    schema: Annotated[str | None, typer.Option(help="Columns of a topic that the app does not declare.")] = None,
    partitions: Annotated[int, typer.Option(help="With --schema: how many partitions.")] = 1,
    partition_by: Annotated[str | None, typer.Option(help="With --schema: columns, with commas between.")] = None,
    event_time: Annotated[str | None, typer.Option(help="With --schema: the column that says when.")] = None,
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make topics before their first row. `send` and `run` make them, too.

    \b
    Example:
      headrace topic create
      headrace topic create visits --schema "page STRING, time TIMESTAMP" --partitions 4 --partition-by page
    """
    app, rest = split(arguments or [], more=True)
    loaded = load(app, given(data=data, debug=debug))
    if len(rest) > 1 or (schema and not rest):
        raise UsageError("one NAME, please")
    if schema:
        origin = Origin("--schema", 1)
        validation.check_name("topic", rest[0], origin)
        by = tuple(column.strip() for column in partition_by.split(",")) if partition_by else ()
        wanted = [TopicDef(rest[0], parse_schema(schema), partitions, by, event_time, None, origin)]
        validation.check_topic(wanted[0])
    else:
        wanted = [topic for name, topic in loaded.definition.topics.items() if not rest or name == rest[0]]
        if rest and not wanted:
            raise UsageError(f'the app declares no topic "{rest[0]}"', hint='--schema "COLUMN TYPE, ..." for one of another kind')
    made = [open_topic(loaded.place, definition) for definition in wanted]
    if json:
        topics = [{"name": t.spec.name, "schema": ddl(t.spec.schema), "partitions": t.spec.partitions} for t in made]
        output.answer({"topics": topics}, app=loaded.app.name)
    else:
        for topic in made:
            count = topic.spec.partitions
            output.say(f"{topic.spec.name}: {count} partition{'s' * (count != 1)}, {ddl(topic.spec.schema)}")
