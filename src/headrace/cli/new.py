"""headrace new"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.options import Json
from headrace.cli.templates import TEMPLATES
from headrace.errors import UsageError

NAME = "new"


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder; it is made.")],
    template: Annotated[str, typer.Option(help=f"What to start from: {', '.join(TEMPLATES)}.")] = "phone_actions",
    json: Json = False,
) -> None:
    """A project that runs at once.

    \b
    Example:
      headrace new clicks
      cd clicks && headrace send events events.jsonl && headrace run --once
      headrace query "SELECT * FROM actions_per_hour"
    """
    if template not in TEMPLATES:
        raise UsageError(f'there is no template "{template}"', hint=" or ".join(TEMPLATES))
    files = TEMPLATES[template].files
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", hint="a new folder")
    for name in files:
        if (folder / name).exists():
            raise UsageError(f"{folder / name} exists, and nothing is overwritten", hint="a new folder")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    if json:
        output.answer({"folder": str(folder), "files": sorted(files)})
        return
    output.say(f"made {folder}: {', '.join(sorted(files))}\n")
    output.say("next:")
    output.say(f"  cd {folder}")
    for step in TEMPLATES[template].steps:
        output.say(f"  {step}")
