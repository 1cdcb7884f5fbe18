"""headrace topic"""

from __future__ import annotations

import typer

from headrace.cli.topic import create, delete, list, show, tail

group = typer.Typer(help="Topics of the embedded log.", no_args_is_help=True, rich_markup_mode=None)
for command in (create, list, show, tail, delete):
    group.command(command.NAME)(command.command)
