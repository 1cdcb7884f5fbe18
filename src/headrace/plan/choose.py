"""Which lane keeps a table, and why.

`plan_table` looks at the analysed plan of a table's function and says how the table is kept:

- **append**: row by row; the change is the function of the new rows;
- **merge**: row by row up to one aggregate whose parts unite;
- **recompute**: anything else, by partition; without one, the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pyspark.sql.types import StructType

from headrace.definitions import TableDef
from headrace.errors import DefinitionError
from headrace.plan.doubles import Added, Doubles
from headrace.plan.fingerprint import normalised
from headrace.plan.merge import Merge, aggregates, describe_merge, find_aggregate, grouping_of, why_not
from headrace.plan.orders import OrderCheck, Orders
from headrace.plan.purity import check
from headrace.plan.shape import PLAIN, once, shape, substitute
from headrace.plan.traits import ONE, Component, Partitions, Traits, finest, output_tuple
from headrace.plan.tree import Expr, Node, Path

Lane = Literal["append", "merge", "recompute"]


@dataclass(frozen=True)
class Input:
    """What a function reads. `grows`: a table whose rows never change or vanish; `approximate`: columns added in double."""

    name: str
    kind: Literal["source", "table", "reference"]
    schema: StructType
    key: tuple[str, ...] | None = None
    grows: bool = False
    approximate: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Column:
    """A column of the result; `type` as the plan's JSON names it, where it does."""

    name: str
    type: str | None


@dataclass(frozen=True)
class Occurrence:
    """One leaf of an input that changes.

    `part` is the root of the largest row-by-row part over it; the tuple's expressions are over the columns of the node there.
    All occurrences have tuples of the same length; the constant `traits.ONE` stands where a component does not apply.
    """

    input: str
    leaf: Path
    part: Path
    tuple: tuple[Expr, ...]


@dataclass(frozen=True)
class Position:
    """One branch of a table keyed by position: the leaf whose row's position its rows carry. `multiplies`: needs an ordinal."""

    branch: int
    input: str
    leaf: Path
    part: Path
    multiplies: bool


@dataclass(frozen=True)
class TablePlan:
    """How one table is kept.

    `occurrences` hold the partition of a recompute; `whole` says that there is none. `output_tuple` is the same tuple over the
    result's columns, where they hold it: then one run is enough. `linear` names inputs whose new rows need none of their old
    rows. `key` is given or follows from the group-by; None: keyed by `positions`.
    """

    table: str
    lane: Lane
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    key: tuple[str, ...] | None
    columns: tuple[Column, ...]
    whole: bool
    occurrences: tuple[Occurrence, ...]
    output_tuple: tuple[Expr, ...] | None
    linear: frozenset[str]
    merge: Merge | None
    positions: tuple[Position, ...]
    approximate: Mapping[str, str] = field(default_factory=dict)
    decided_by_double: tuple[str, ...] = ()
    added: tuple[Added, ...] = ()
    orders: tuple[OrderCheck, ...] = ()
    trusted: tuple[str, ...] = ()
    normalised: str = ""
    suggestions: tuple[str, ...] = ()


def plan_table(root: Node, table: TableDef, inputs: Mapping[str, Input], *, unchanged: frozenset[str] = frozenset()) -> TablePlan:
    """Choose the lane of a table by the analysed plan of its function, called over empty frames.

    `inputs` are named as in the leaves (`_hr_row__<name>`). Inputs in `unchanged` have no change in this epoch: they count as
    references, which may give a finer partition than the plan for every epoch.
    """
    trusted = check(root, table, inputs)
    orders = Orders(root, table, inputs)
    fixed = frozenset(name for name, i in inputs.items() if i.kind == "reference") | unchanged
    shaped = shape(root)
    traits = Traits(shaped, fixed)
    plan = _Planner(shaped, traits, table, inputs, orders).plan()
    doubles = Doubles(root, {name: given.approximate for name, given in inputs.items() if given.approximate})
    return replace(
        plan,
        approximate=doubles.of_output(),
        decided_by_double=(*doubles.decided, *_approximate_key(plan, doubles.of_output())),
        added=tuple(doubles.added),
        orders=orders.checks,
        trusted=trusted,
        normalised=normalised(root),
        suggestions=_suggestions(root),
        warnings=(*plan.warnings, *_sorts(root)),
    )


def _approximate_key(plan: TablePlan, approximate: Mapping[str, str]) -> list[str]:
    return [f'{approximate[k]}, and "{k}" is in the key' for k in plan.key or () if k in approximate]


def _sorts(root: Node) -> list[str]:
    """ORDER BY at the end has no meaning for a table."""
    node = root
    while node.cls in PLAIN | {"Project"} and node.children:
        if node.cls == "Sort":
            return ["ORDER BY at the end is ignored: a table has no order"]
        node = node.children[0]
    return []


def _suggestions(root: Node) -> tuple[str, ...]:
    """Aliases for columns that Spark named itself."""
    unnamed = [a.name for a in root.output if a.name and not a.name.replace("_", "a").isalnum()]
    return tuple(f'name the column "{name}": ... AS {_alias(name)}' for name in unnamed)


def _alias(name: str) -> str:
    words = re.findall(r"[A-Za-z]+", name.lower())
    return "_".join(words[:3]) or "value"


class _Planner:
    def __init__(self, root: Node, traits: Traits, table: TableDef, inputs: Mapping[str, Input], orders: Orders) -> None:
        self.root, self.traits, self.table, self.inputs = root, traits, table, inputs
        self.orders = orders
        self.warnings: list[str] = []
        self.live = traits.occurrences(root)

    def plan(self) -> TablePlan:
        key = self._key()
        lane, reasons, merge = self._lane()
        components = finest(Partitions(self.traits).of(self.root)) if lane == "recompute" else []
        whole = lane == "recompute" and not components
        if whole:
            self.warnings.append("every epoch reads the whole table's inputs again: no partition was found")
        positions = self._positions() if key is None and lane == "append" else ()
        if key is None and not positions:
            raise self._no_key(lane)
        names = sorted({leaf.input for leaf in self.live if leaf.input})
        return TablePlan(
            table=self.table.name,
            lane=lane,
            reasons=tuple(reasons),
            warnings=tuple(self.warnings),
            key=key,
            columns=tuple(Column(a.name or "", a.type) for a in self.root.output),
            whole=whole,
            occurrences=self._occurrences(components),
            output_tuple=output_tuple(components, self.root.output) if components else None,
            linear=frozenset(n for n in names if self.traits.linear(self.root, n)),
            merge=merge,
            positions=positions,
        )

    # --- the lane

    def _lane(self) -> tuple[Lane, list[str], Merge | None]:
        if self.traits.additive(self.root):
            return "append", ["every row is treated by itself"], None
        node = find_aggregate(self.traits, self.root)
        if node is None:
            return "recompute", [self._why_recompute()], None
        reason = why_not(self.traits, node, loses=self._loses(), proved=self.orders.proved)
        if reason is not None:
            return "recompute", [reason], None
        functions = ", ".join(map(str, aggregates(node))) or "its distinct rows"
        return "merge", [f"the parts of {functions} unite"], describe_merge(self.traits, node)

    def _loses(self) -> bool:
        return any(
            self.inputs[leaf.input].kind == "table" and not self.inputs[leaf.input].grows for leaf in self.live if leaf.input
        )

    def _why_recompute(self) -> str:
        node = self.root
        while self.traits.through(node) is not None:
            node = self.traits.through(node) or node
        return f"{_NAMES.get(node.cls, node.cls)} needs rows together"

    def _occurrences(self, components: Sequence[Component]) -> tuple[Occurrence, ...]:
        return tuple(
            Occurrence(
                leaf.input or "",
                leaf.path,
                self.traits.part(leaf).path,
                tuple(c.leafs.get(leaf.path, ONE) for c in components),
            )
            for leaf in self.live
        )

    # --- the key

    def _key(self) -> tuple[str, ...] | None:
        if self.table.key is None:
            return self._derived_key()
        names = [a.name for a in self.root.output]
        for column in self.table.key:
            if column not in names:
                raise DefinitionError(
                    f'table "{self.table.name}" has no column "{column}"',
                    details=["its key names it; the columns are " + ", ".join(f'"{n}"' for n in names)],
                    origin=self.table.origin,
                )
        return self.table.key

    def _derived_key(self) -> tuple[str, ...] | None:
        """The output columns that hold the grouping expressions of the outermost group-by."""
        node, shown = self.root, {a.name or "": a for a in self.root.output}
        traced: dict[str, Expr | None] = dict(shown)
        partitions = Partitions(self.traits)
        while node.cls != "Aggregate":
            if node.cls not in PLAIN | {"Project", "Filter", "Side", "Window", "GlobalLimit", "LocalLimit"}:
                return None
            defs = partitions.definitions(node, sessions=True)
            traced = {name: substitute(e, defs) for name, e in traced.items()}
            node = node.children[0]
        defs = partitions.definitions(node, sessions=True)
        below = {name: substitute(e, defs) for name, e in traced.items()}
        key = []
        for expr in once(grouping_of(node)):
            found = next((name for name, e in below.items() if e == expr), None)
            if found is None and not expr.attributes and expr.cls == "Literal":
                continue
            if found is None:
                return None
            key.append(found)
        return tuple(key)

    def _no_key(self, lane: Lane) -> DefinitionError:
        columns = ", ".join(f'"{a.name}"' for a in self.root.output[:3])
        return DefinitionError(
            f'table "{self.table.name}" needs a key',
            details=["only rows that come one by one from a source's rows are keyed by their position; these need rows together"],
            origin=self.table.origin,
            hint=f"key=[{columns}], or the columns that no two rows share",
        )

    def _positions(self) -> tuple[Position, ...]:
        """The branches of a function that treats rows one by one; empty where a row has no position."""
        found: list[Position] = []
        for branch, (node, multiplies) in enumerate(_branches(self.root, False)):
            leaves = self.traits.occurrences(node)
            plain = _only(node, multiplies)
            if len(leaves) != 1 or plain is None:
                return ()
            found.append(Position(branch, leaves[0].input or "", leaves[0].path, node.path, plain))
        return tuple(found)


_NAMES = {"Join": "a join", "Window": "a window function", "Side": "a subquery", "Union": "a union", "GlobalLimit": "LIMIT"}


def _branches(node: Node, multiplies: bool) -> list[tuple[Node, bool]]:
    """The branches of the unions at the top."""
    if node.cls == "Union":
        return [b for child in node.children for b in _branches(child, multiplies)]
    if node.cls in PLAIN | {"Project", "Filter", "Generate", "Expand", "Side"} and any(n.cls == "Union" for n in node.walk()):
        return _branches(node.children[0], multiplies or node.cls in ("Generate", "Expand"))
    return [(node, multiplies)]


def _only(node: Node, multiplies: bool) -> bool | None:
    """Whether rows multiply on the way up from the leaf; None where they meet others."""
    while node.input is None:
        if node.cls in ("Generate", "Expand"):
            multiplies = True
        elif node.cls == "Join" and node.enum("joinType") in ("LeftSemi", "LeftAnti"):
            pass
        elif node.cls not in PLAIN | {"Project", "Filter", "Side", "CTERelationRef"} or not node.children:
            return None
        node = node.children[0]
    return multiplies
