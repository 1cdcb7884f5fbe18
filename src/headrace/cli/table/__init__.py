"""headrace table"""

from __future__ import annotations

import typer

from headrace.cli.table import list, show

group = typer.Typer(
    help="Tables, their history, and the rows that could not be used.", no_args_is_help=True, rich_markup_mode=None
)
for command in (list, show):
    group.command(command.NAME)(command.command)
