"""The command line: the folder tree is the command tree, and this is the one place that catches errors."""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from headrace.cli import batch, doctor, new, plan, query, run, send, status, stop, table, topic, verify, version
from headrace.cli.output import note, plain
from headrace.errors import Bug, HeadraceError

cli = typer.Typer(
    name="headrace",
    help="Live tables on Apache Spark that always equal the batch answer on a prefix of the data.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (new, run, batch, verify, query, send):
    cli.command(command.NAME)(command.command)
cli.add_typer(topic.group, name="topic")
cli.add_typer(table.group, name="table")
for command in (plan, status, stop, doctor, version):
    cli.command(command.NAME)(command.command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    sys.exit(answer(list(sys.argv[1:] if arguments is None else arguments)))


def answer(arguments: list[str]) -> int:
    """Run one command; every error ends here."""
    as_json, debug = "--json" in arguments, "--debug" in arguments
    try:
        code: Any = cli(args=arguments, standalone_mode=False)
        return int(code or 0)
    except HeadraceError as problem:
        _show(problem, as_json, debug)
        return problem.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); what Python flushes at exit must not complain again.
        sys.stdout = None
        return 128 + signal.SIGPIPE
    except Exception as problem:
        return _other(problem, as_json, debug)


def _other(problem: Exception, as_json: bool, debug: bool) -> int:
    """Errors that are not ours: the command line's own, and bugs."""
    if hasattr(problem, "format_message") and hasattr(problem, "exit_code"):
        shown = problem.format_message().removesuffix(".")
        if as_json:
            _json({"code": "usage", "message": shown, "file": None, "line": None, "try": None})
        else:
            context = getattr(problem, "ctx", None)
            note(shown + (f"\n  try: {context.command_path} --help" if context else ""))
        return 2
    frames = traceback.extract_tb(problem.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
    _show(
        Bug(
            "this is a bug in Headrace",
            details=[f"{type(problem).__name__}: {problem}", f"at {where}"],
            hint="--debug for the traceback, and report it with that",
        ),
        as_json,
        debug,
    )
    return Bug.exit_code


def _show(problem: HeadraceError, as_json: bool, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    if as_json:
        _json(problem.as_json())
    else:
        note(problem.render())


def _json(error: dict[str, object]) -> None:
    note(json.dumps({"error": plain(error)}, ensure_ascii=False))


if __name__ == "__main__":
    main()
