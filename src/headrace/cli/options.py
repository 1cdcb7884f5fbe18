"""Options that many commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

AppArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="[APP]", help="The app's file, FILE.py:NAME, or its folder; default: headrace.toml or app.py here."),
]
Data = Annotated[Path | None, typer.Option("--data", help="The data folder; default: headrace-data beside the app.")]
StoreAt = Annotated[str | None, typer.Option("--store", help="Where tables are kept: sqlite:///FILE.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs.")]


def given(**options: Any) -> dict[str, Any]:
    """The options that were typed."""
    return {name: value for name, value in options.items() if value is not None and value is not False}
