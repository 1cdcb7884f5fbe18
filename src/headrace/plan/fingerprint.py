"""What decides whether a table must be rebuilt, and whether its function still is the one it was.

`source_fingerprint` is over what the user wrote: the syntax tree of the function and of the project's own modules that it
uses, or the SQL text, with input schemas, key, time zone and ANSI. `normalised` is over the plan that Spark made of it.
"""

from __future__ import annotations

import ast
import dis
import hashlib
import inspect
import json
import re
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql.types import StructType

from headrace.definitions import TableDef
from headrace.plan.tree import Expr, Node


class _Described(Protocol):
    @property
    def kind(self) -> str: ...
    @property
    def schema(self) -> StructType: ...
    @property
    def key(self) -> tuple[str, ...] | None: ...


def source_fingerprint(table: TableDef, inputs: Mapping[str, _Described], timezone: str, *, ansi: bool = True) -> str:
    """A hash that changes when, and only when, the table must be rebuilt.

    Comments, blank lines and places do not count; names of the inputs' columns, their types, the key and the time zone do.
    """
    described = {
        called: [name, inputs[name].kind, json.loads(inputs[name].schema.json()), list(inputs[name].key or ())]
        for called, name in table.inputs
        if name in inputs
    }
    source = sql_words(table.query) if table.query is not None else _Sources().of(table.function)
    parts = [table.name, source, described, list(table.key or ()) if table.key is not None else None, timezone, ansi]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


_SQL_TOKEN = re.compile(r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)|(--[^\n]*)|(/\*.*?\*/)|(\s+)""", re.DOTALL)


def sql_words(query: str) -> str:
    """SQL with comments and runs of white space as one blank; quoted text stays as it is.

    >>> sql_words("SELECT  a -- why\\n FROM 't  x'")
    "SELECT a FROM 't  x'"
    """
    text = _SQL_TOKEN.sub(lambda m: m.group(1) or " ", query)
    pieces = re.split(r"""('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`)""", text)
    return "".join(p if i % 2 else re.sub(r"\s+", " ", p) for i, p in enumerate(pieces)).strip()


class _Sources:
    """Collects the syntax of a function and of everything of the project's own that it uses, each once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.found: list[Any] = []
        self.root: Path | None = None

    def of(self, function: Callable[..., Any] | None) -> list[Any]:
        assert function is not None, "a table has a function or a query"
        plain = inspect.unwrap(function)
        file = getattr(getattr(plain, "__code__", None), "co_filename", None)
        self.root = Path(file).resolve().parent if file and Path(file).exists() else None
        self._value("", plain)
        return self.found

    def _value(self, name: str, value: Any) -> None:
        """A value that the function uses under a name."""
        inner = getattr(value, "func", None) or getattr(value, "__wrapped__", None)
        if isinstance(inner, types.FunctionType) and not isinstance(value, type):
            self._value(name, inner)  # a Python UDF is a function of Spark's around the user's; so is functools.partial
        elif isinstance(value, types.FunctionType):
            if self._ours(value) and id(value) not in self.seen:
                self.seen.add(id(value))
                self._function(name, value)
        elif isinstance(value, type):
            if self._ours_by_module(value.__module__) and id(value) not in self.seen:
                self.seen.add(id(value))
                self._class(name, value)
        elif isinstance(value, types.ModuleType):
            if self._ours_by_module(value.__name__) and id(value) not in self.seen:
                self.seen.add(id(value))
                self._module(name, value)
        elif _simple(value):
            self.found.append([name, "value", repr(_ordered(value))])

    def _function(self, name: str, function: types.FunctionType) -> None:
        self.found.append([name, "function", _syntax(function)])
        self.found.append([name, "defaults", repr(_ordered(function.__defaults__)), repr(_ordered(function.__kwdefaults__))])
        cells = function.__closure__ or ()
        for free, cell in zip(function.__code__.co_freevars, cells, strict=True):
            try:
                self._value(free, cell.cell_contents)
            except ValueError:  # the name is not bound yet
                continue
        for used in sorted(_names(function.__code__)):
            if used in function.__globals__:
                self._value(used, function.__globals__[used])

    def _class(self, name: str, cls: type) -> None:
        self.found.append([name, "class", _syntax(cls)])
        for attribute in vars(cls).values():
            inner = getattr(attribute, "__func__", attribute)
            if isinstance(inner, types.FunctionType):
                self._value("", inner)

    def _module(self, name: str, module: types.ModuleType) -> None:
        """A project's own module counts as a whole: what it reads by attribute cannot be told from outside."""
        path = Path(module.__file__ or "")
        if path.exists():
            self.found.append([name, "module", _dump(path.read_text(encoding="utf-8"))])

    def _ours(self, function: types.FunctionType) -> bool:
        return self._ours_by_file(function.__code__.co_filename)

    def _ours_by_module(self, name: str) -> bool:
        return self._ours_by_file(getattr(sys.modules.get(name), "__file__", None))

    def _ours_by_file(self, file: str | None) -> bool:
        """In the folder of the table's function or below it; installed packages are not the project's."""
        if file is None or self.root is None:
            return file is not None and not Path(file).exists()
        path = Path(file).resolve()
        return path.is_relative_to(self.root) and "site-packages" not in path.parts


def _names(code: types.CodeType) -> set[str]:
    """Global names that the code, or code inside it, reads."""
    found = {str(i.argval) for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _simple(value: Any) -> bool:
    if value is None or isinstance(value, (str, bytes, int, float, bool, complex)):
        return True
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_simple, value))
    if isinstance(value, dict):
        return all(_simple(k) and _simple(v) for k, v in value.items())
    return isinstance(value, StructType) or type(value).__module__ in ("datetime", "decimal", "pathlib")


def _ordered(value: Any) -> Any:
    return sorted(map(repr, value)) if isinstance(value, (set, frozenset)) else value


def _syntax(thing: Any) -> str:
    """The syntax tree of a function or class; its byte code where there is no source."""
    try:
        return _dump(textwrap.dedent(inspect.getsource(thing)))
    except (OSError, TypeError, SyntaxError):
        code = getattr(thing, "__code__", None)
        return f"{code.co_code.hex()} {_constants(code)} {code.co_names}" if code else repr(thing)


def _constants(code: types.CodeType) -> list[str]:
    return [" ".join(_constants(c)) if isinstance(c, types.CodeType) else repr(c) for c in code.co_consts]


def _dump(source: str) -> str:
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a lambda in the middle of an expression has no source of its own
        return re.sub(r"\s+", " ", source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_docstring(body[0]) and len(body) > 1:
            del body[0]
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.decorator_list = [d for d in node.decorator_list if not _registers(d)]
    return ast.dump(tree, include_attributes=False)


def _is_docstring(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _registers(decorator: ast.expr) -> bool:
    """`@app.table(...)`: what it says counts by what it means (key, inputs), not by how it is written."""
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(inner, ast.Attribute) and inner.attr == "table"


# --- the plan ---------------------------------------------------------------------------------------------------------

_LEFT_OUT = frozenset("desc cteId id data output metrics numSlices isStreaming options qualifier catalogTable name".split())


def normalised(root: Node) -> str:
    """The hash of a plan: expression ids renumbered, leaves by input name, nullability dropped, constants kept."""
    ids: dict[int, int] = {}
    return hashlib.sha256(json.dumps(_node(root, ids), sort_keys=True).encode()).hexdigest()


def _node(node: Node, ids: dict[int, int]) -> list[Any]:
    if node.cls in ("SubqueryAlias", "View"):
        return _node(node.children[0], ids)
    below = [_node(child, ids) for child in node.children]
    if node.input is not None:
        return ["input", node.input, [[a.name, _number(a.id, ids)] for a in node.output]]
    plain = {k: _plain(v) for k, v in node.raw.items() if k not in _LEFT_OUT and k != "class"}
    return [node.cls, plain, {k: [_expr(e, ids) for e in v] for k, v in node.exprs.items()}, below]


def _expr(expr: Expr, ids: dict[int, int]) -> list[Any]:
    # CASE prints its branches as a field, too, with the ids of this very call; they are among the children.
    values = [[k, v] for k, v in expr.values if k not in ("same", "of", "id", "branches")]
    name = expr.name if expr.cls in ("Alias", "PythonUDF") else None
    children = [_expr(child, ids) for child in expr.children]
    plan = _node(expr.plan, ids) if expr.plan is not None else None
    number = (
        _number(expr.id, ids) if expr.cls in ("AttributeReference", "OuterReference", "Alias", "NamedLambdaVariable") else None
    )
    return [expr.cls, values, name, number, children, plan]


def _number(column: int | None, ids: dict[int, int]) -> int | None:
    return None if column is None else ids.setdefault(column, len(ids))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if k not in ("jvmId", "id", "nullable")}
    return [_plain(v) for v in value] if isinstance(value, list) else value
