"""headrace send"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.apps import Apps
from headrace.cli import output
from headrace.cli.feed import Sent, feed, format_of
from headrace.cli.loading import load
from headrace.cli.options import Data, Debug, Json, given
from headrace.cli.progress import progress
from headrace.cli.target import find, place_without_import, split
from headrace.cli.topic.common import spelled
from headrace.errors import UsageError, WorldError
from headrace.log.rows import FORMATS
from headrace.log.topic import Topic
from headrace.topics import open_topic

NAME = "send"


def command(
    arguments: Annotated[list[str], typer.Argument(metavar="[APP] TOPIC FILE", help="FILE may be - for standard input.")],
    format: Annotated[str | None, typer.Option(help=f"One of {', '.join(FORMATS)}; default: by the file's name.")] = None,
    producer: Annotated[str | None, typer.Option(help="A name under which the call may be repeated; with --sequence.")] = None,
    sequence: Annotated[
        int | None, typer.Option(min=0, help="The number of the first append; a long file takes several.")
    ] = None,
    data: Data = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Append a file's rows to a topic, durably. Lines that are no rows of the topic become rejects, and are counted.

    \b
    Example:
      headrace send events events.jsonl
      tail -f access.log | headrace send weblog - --format text
      headrace send events monday.csv --producer loader --sequence 100
    """
    app, (name, file) = split(arguments, ["TOPIC", "FILE"])
    if (producer is None) != (sequence is None):
        raise UsageError("--producer and --sequence belong together", hint="--producer loader --sequence 1")
    chosen = format_of(file, format)
    source = None if file == "-" else Path(file)
    if source is not None:
        _check_file(source)
    topic, app_name = _topic(app, name, given(data=data, debug=debug))
    with progress("sending", total=source.stat().st_size if source else None) as step:
        sent = feed(topic, source, chosen, producer=producer, sequence=sequence, advance=step)
    _show(sent, topic, app_name, json)


def _check_file(source: Path) -> None:
    if not source.exists():
        raise WorldError(f"there is no file {source}", hint="the right path, or - for standard input")
    if not source.is_file():
        raise UsageError(f"{source} is no ordinary file", hint="the files in it, one by one; or - and a pipe into standard input")


def _topic(app: str | None, name: str, options: dict[str, object]) -> tuple[Topic, str]:
    """The topic on disk; only when it is not there yet is the app imported, which declares it."""
    target = find(app)
    if Apps(target.project).find(target.key):
        place = place_without_import(app, options)
        folder = spelled(place, name)
        if folder is not None:
            return Topic.open(folder), place.app
    loaded = load(app, options)
    folder = spelled(loaded.place, name)
    if folder is not None:
        return Topic.open(folder), loaded.app.name
    definition = next((topic for topic in loaded.definition.topics.values() if topic.name.lower() == name.lower()), None)
    if definition is None:
        declared = ", ".join(loaded.definition.topics)
        raise UsageError(
            f'the app has no topic "{name}"', hint=f"one of {declared}" if declared else f'app.topic("{name}", schema=...)'
        )
    return open_topic(loaded.place, definition), loaded.app.name


def _show(sent: Sent, topic: Topic, app: str, json: bool) -> None:
    position = sent.position.token if sent.position else None
    if json:
        document = {"topic": topic.spec.name, "rows": sent.rows, "rejects": sent.rejects, "position": position}
        first = [{"row": row, "reason": reason, "message": message} for row, reason, message in sent.first]
        output.answer({**document, "first": first, "next_sequence": sent.next_sequence}, app=app)
        return
    output.say(f"{topic.spec.name}: {sent.rows:,} row{'s' * (sent.rows != 1)}")
    if sent.rejects:
        output.note(f"{sent.rejects:,} of them unusable (headrace table rejects):")
        for row, reason, message in sent.first:
            output.note(f"  row {row}: {reason}: {message}" if message else f"  row {row}: {reason}")
    if sent.next_sequence is not None:
        output.note(f"next: --sequence {sent.next_sequence}")
