"""Writes docs/reference.md from the command line's help and the public docstrings; --check says whether it is up to date."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import headrace
from headrace import errors
from headrace.cli.main import cli
from headrace.settings import Settings

FILE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"


def document() -> str:
    """The whole page."""
    parts = ["# Reference", "Generated from the code by `make docs`. [Concepts](concepts.md) explains the words.", "## Python"]
    for name in headrace.__all__:
        parts += list(_class(name, getattr(headrace, name)))
    parts += [
        "## Commands",
        "`APP` is a file (`app.py`, `app.py:name`), `headrace.toml`, or a folder; without it, the one that is here.",
    ]
    for path, command in commands():
        parts += list(_command(path, command))
    parts += ["## Settings", *_settings(), "## Errors", *_errors()]
    return "\n\n".join(parts) + "\n"


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name, in the order of the help."""

    def walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path, command
        else:
            for name, one in inner.items():
                yield from walk(f"{path} {name}", one)

    yield from walk("headrace", typer.main.get_command(cli))


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties that a class defines itself."""
    for name, value in vars(kind).items():
        if not name.startswith("_"):
            inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if callable(inner) or isinstance(inner, property):
                yield name, inner


def _class(name: str, kind: Any) -> Iterator[str]:
    yield f"### hr.{name}"
    if inspect.isfunction(kind):
        yield f"```python\n{name}{_signature(kind)}\n```"
    yield _prose(inspect.getdoc(kind) or "")
    for member, value in members(kind):
        if isinstance(value, property):
            yield f"#### {name}.{member}"
            yield _prose(inspect.getdoc(value) or "")
        else:
            yield f"#### {name}.{member}"
            yield f"```python\n{member}{_signature(value)}\n```"
            yield _prose(inspect.getdoc(value) or "")


class _Bare(str):
    """An annotation that is shown as it was written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    @classmethod
    def of(cls, annotation: Any) -> Any:
        """Annotations are texts under `from __future__ import annotations`; empty ones stay what they are."""
        return cls(annotation) if isinstance(annotation, str) else annotation


def _signature(function: Any) -> str:
    """Without `self`; broken at its commas where it is long."""
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=_Bare.of(p.annotation)) for p in signature.parameters.values() if p.name != "self"]
    returns = _Bare.of(signature.return_annotation)
    text = str(signature.replace(parameters=parameters, return_annotation=returns)).replace("'", '"')
    if len(text) < 110:
        return text
    star = next((n for n, p in enumerate(parameters) if p.kind is p.KEYWORD_ONLY), None)
    shown = [str(p) for p in parameters]
    if star is not None:
        shown.insert(star, "*")
    ending = text.rpartition(")")[2]
    return "(\n" + "".join(f"    {line},\n" for line in shown).replace("'", '"') + ")" + ending


def _prose(text: str) -> str:
    """A docstring, its examples as code."""
    out, code = [], False
    for line in text.splitlines():
        starts = line.startswith((">>>", "..."))
        if starts and not code:
            out += ["```python"]
            code = True
        elif code and not line.strip():
            out += ["```"]
            code = False
        out.append(line)
    return "\n".join([*out, "```"] if code else out)


def _command(path: str, command: Any) -> Iterator[str]:
    yield f"### {path}"
    text, _, example = inspect.cleandoc(command.help or "").partition("\b\nExample:\n")
    yield text.strip()
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([path, "[OPTIONS]", *(p.metavar or p.name.upper() for p in arguments)])
    yield f"```\n{usage}\n```"
    rows = [
        f"| `{', '.join(p.opts)}` | {p.help or ''} |"
        for p in command.params
        if p.param_type_name == "option" and not p.hidden and p.name != "help"
    ]
    yield "\n".join(["| option | |", "|---|---|", *rows])
    yield "```\n" + inspect.cleandoc(example) + "\n```"


def _settings() -> Iterator[str]:
    yield "Option, environment, `headrace.toml` (`[settings]`), the app, default: in that order; `headrace doctor` says which."
    rows = [
        f"| `{name}` | `HEADRACE_{name.upper()}` | {field.description} |"
        for name, field in Settings.model_fields.items()
        if name != "origins"
    ]
    yield "\n".join(["| setting | environment | |", "|---|---|---|", *rows])


def _errors() -> Iterator[str]:
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.HeadraceError)]
    rows = [
        f"| `{kind.code}` | {kind.__name__} | {kind.exit_code} | {(inspect.getdoc(kind) or '').splitlines()[0]} |"
        for kind in kinds[1:]
    ]
    yield "\n".join(["| code | class | exit | |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if FILE.exists() and FILE.read_text() == document() else "docs/reference.md is old: make docs")
    FILE.write_text(document())
