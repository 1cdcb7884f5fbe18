"""Every public name has a docstring, every command a help with an example, and the reference is up to date."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from pathlib import Path

import pytest

import headrace

PROJECT = Path(__file__).parent.parent


def reference_script():
    spec = importlib.util.spec_from_file_location("reference", PROJECT / "scripts" / "reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


reference = reference_script()
COMMANDS = dict(reference.commands())


def test_every_module_and_every_public_name_has_a_docstring():
    missing = []
    for file in sorted((PROJECT / "src").rglob("*.py")):
        tree = ast.parse(file.read_text())
        if tree.body and not ast.get_docstring(tree):
            missing.append(str(file))
        missing += [f"{file}:{node.lineno} {name}" for name, node in public(tree, ()) if not ast.get_docstring(node)]
    assert not missing, "\n".join(missing)


def public(tree, path):
    """Classes, functions and methods that no underscore hides; not what is inside a function, nor overloads and overrides."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if "overload" not in decorators and not overrides(tree, node):
                yield ".".join((*path, node.name)), node
            if isinstance(node, ast.ClassDef):
                yield from public(node, (*path, node.name))


def overrides(tree, node):
    """A method of a class with bases keeps the promise that is written at its base."""
    return isinstance(tree, ast.ClassDef) and bool(tree.bases) and isinstance(node, ast.FunctionDef)


@pytest.mark.parametrize("name", headrace.__all__)
def test_every_public_name_explains_itself_and_its_members(name):
    kind = getattr(headrace, name)
    assert inspect.getdoc(kind)
    assert all(inspect.getdoc(value) for _, value in reference.members(kind))


def test_the_public_names_are_those_that_are_listed():
    assert [name for name in headrace.__all__ if not hasattr(headrace, name)] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_help_with_an_example_and_explains_its_options(path):
    command = COMMANDS[path]
    assert (
        f"Example:\n  {path}" in inspect.cleandoc(command.help).replace("cd clicks && ", "")
        or "headrace" in command.help.split("Example:")[1]
    )
    assert [p.name for p in command.params if p.param_type_name == "option" and not p.help and not p.hidden] == []


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in ("headrace new",)])
def test_json_and_debug_are_everywhere(path):
    options = {option for parameter in COMMANDS[path].params for option in parameter.opts}
    assert "--json" in options
    assert "--debug" in options or path == "headrace version"


def test_the_commands_are_those_that_were_promised():
    groups = {
        "topic": ["create", "list", "show", "tail", "delete"],
        "table": ["list", "show", "history", "rejects", "drop"],
    }
    plain = ["new", "run", "batch", "verify", "query", "send", "plan", "status", "stop", "doctor", "version"]
    assert set(COMMANDS) == {f"headrace {name}" for name in plain} | {
        f"headrace {g} {name}" for g, names in groups.items() for name in names
    }


def test_the_reference_is_up_to_date():
    assert (PROJECT / "docs" / "reference.md").read_text() == reference.document(), "make docs"
