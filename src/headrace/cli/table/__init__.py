"""headrace table"""

from __future__ import annotations

import typer

from headrace.cli.table import drop, history, list, rejects, show

group = typer.Typer(
    help="Tables, their history, and the rows that could not be used.", no_args_is_help=True, rich_markup_mode=None
)
for command in (list, show, history, rejects, drop):
    group.command(command.NAME)(command.command)
