"""headrace topic list"""

from __future__ import annotations

from headrace.cli import output
from headrace.cli.options import AppArgument, Data, Debug, Json, given
from headrace.cli.target import place_without_import, split
from headrace.cli.topic.common import names, opened

NAME = "list"


def command(app: AppArgument = None, data: Data = None, json: Json = False, debug: Debug = False) -> None:
    """The topics that exist, with their rows and bytes.

    \b
    Example:
      headrace topic list
    """
    place = place_without_import(split(app or [])[0], given(data=data, debug=debug))
    stats = [opened(place, name).stats() for name in names(place)]
    if json:
        topics = [{"name": s.name, "rows": s.rows, "bytes": s.bytes, "partitions": len(s.partitions)} for s in stats]
        output.answer({"topics": topics}, app=place.app)
    else:
        output.table(
            ["topic", "rows", "bytes", "partitions"],
            [(s.name, s.rows, s.bytes, len(s.partitions)) for s in stats],
            right=["rows", "bytes", "partitions"],
        )
