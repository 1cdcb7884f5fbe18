"""Imports go one way: a module may import what stands to its right, and its own part."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import headrace

ROOT = Path(headrace.__file__).parent

# From the top down. Parts of one line do not know each other.
ORDER = [
    {"cli"},
    {"testing"},
    {"__init__"},
    {"app"},
    {"live"},
    {"reading"},
    {"verify"},
    {"batch"},
    {"runtime"},
    {"lanes"},
    {"plan"},
    {"spark"},
    {"validation", "topics", "running", "where"},
    {"definitions", "statement", "functions"},
    {"store"},
    {"log"},
    {"schema", "settings", "clock", "origin", "errors", "place", "apps", "durations"},
]
# Foundations may use each other in this order.
FOUNDATIONS = ["apps", "settings", "place", "durations", "schema", "clock", "errors", "origin"]
# What must not even be reached past: `plan` reads JSON and knows no session; `spark` is below and must not look up.
FORBIDDEN = {("plan", "spark"), ("spark", "plan"), ("store", "spark"), ("log", "store")}


def level(part: str) -> int:
    found = [n for n, parts in enumerate(ORDER) if part in parts]
    assert found, f"{part} has no place in the order; docs/internals.md and this test say which there are"
    return found[0]


def part_of(module: str) -> str:
    """The part of a dotted module name: `log` of `headrace.log.topic`."""
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def imports() -> Iterator[tuple[Path, str, str]]:
    """Every import of one of our modules by another: (file, part, imported part)."""
    for file in sorted(ROOT.rglob("*.py")):
        relative = file.relative_to(ROOT)
        part = relative.parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                names = inner if node.module == "headrace" else [node.module]
            else:
                continue
            for name in names:
                if name.split(".")[0] == "headrace":
                    target = part_of(name)
                    # `from headrace import App` names no module: it is the package itself that is imported.
                    inside = isinstance(node, ast.Import) or node.module != "headrace"
                    known = inside or (ROOT / target).is_dir() or (ROOT / f"{target}.py").exists()
                    yield relative, part, target if known else "__init__"


def test_imports_go_one_way():
    wrong = []
    for file, part, target in imports():
        if part == target:
            continue
        if part in FOUNDATIONS and target in FOUNDATIONS:
            if FOUNDATIONS.index(part) >= FOUNDATIONS.index(target):
                wrong.append(f"{file} imports headrace.{target}")
        elif level(part) >= level(target) or (part, target) in FORBIDDEN:
            wrong.append(f"{file} imports headrace.{target}")
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_in_a_circle():
    """Inside a part, too: if two modules need each other, a third, lower one is missing."""
    edges: dict[str, set[str]] = {}
    modules = {
        ".".join(("headrace", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): file
        for file in ROOT.rglob("*.py")
    }
    for module, file in modules.items():
        edges[module] = set()
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    edges[module].add(inner if inner in modules else node.module)
            elif isinstance(node, ast.Import):
                edges[module] |= {alias.name for alias in node.names}
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        assert module not in path, f"a circle: {' -> '.join([*path[path.index(module) :], module])}"
        if module not in done and module in edges:
            for target in sorted(edges[module] - {module}):
                visit(target, [*path, module])
            done.add(module)

    for module in sorted(edges):
        visit(module, [])
