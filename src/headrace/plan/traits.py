"""Which rows must be read again when an input changes.

All rules look at the tree that `shape` made. An **occurrence** is one leaf of an input: an input that is read twice has two,
each with traits of its own.

- `constant`: nothing below can change. - `row_by_row`: an input seen through operators that treat its rows one by one.
- `linear`: new rows of an input need none of its old rows. - `additive`: what merge may stand on.
- `partitions`: the expressions along which the result falls apart, so that rows of different tuples never meet.

A wrong trait is a wrong number without an error. Where no rule applies there is no partition: the whole table.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.plan.shape import PLAIN, Pair, once, substitute, terms
from headrace.plan.tree import Expr, Node, Path, join_kind
from headrace.plan.types import collated, floating, type_of

_ONE_BY_ONE = PLAIN | frozenset("Project Filter Generate LateralJoin".split())
_MOST = 40
"""More components than this are not looked at for one operator: what is left out only makes a partition coarser."""

ONE = Expr("One")
"""The component that puts all rows into one partition."""


class Traits:
    """The traits of one plan, given which inputs never change."""

    def __init__(self, root: Node, constant: frozenset[str] = frozenset()) -> None:
        self.root = root
        self.fixed = constant
        self.sessions = _session_windows(root)
        self._constant: dict[Node, bool] = {}

    # --- constant, row by row, linear, additive

    def constant(self, node: Node) -> bool:
        """Whether everything below is a reference or written in the query."""
        known = self._constant.get(node)
        if known is None:
            known = node.input in self.fixed if node.input is not None else all(map(self.constant, node.children))
            self._constant[node] = known
        return known

    def through(self, node: Node) -> Node | None:
        """The child whose rows the node treats one by one while everything else below it is constant."""
        if node.cls in _ONE_BY_ONE or node.cls == "CTERelationRef" or (node.cls == "Expand" and not grouping_sets(node)):
            return node.children[0] if node.children else None
        if node.cls == "Side":
            return node.children[0] if self.constant(node.children[1]) else None
        if node.cls == "Join":
            kind, (left, right) = join_kind(node), node.children
            if self.constant(right) and kind in ("inner", "left", "semi", "anti"):
                return left
            if self.constant(left) and kind in ("inner", "right"):
                return right
        return None

    def row_by_row(self, node: Node) -> bool:
        """Whether the node is one input that changes, seen through operators that treat its rows one by one."""
        if node.input is not None:
            return node.input not in self.fixed
        child = self.through(node)
        return child is not None and self.row_by_row(child)

    def linear(self, node: Node, name: str) -> bool:
        """f(A + a, rest) - f(A, rest) = f(a, rest) - f(nothing, rest), for all occurrences of the input together."""
        if node.input == name:
            return True
        held = [i for i, child in enumerate(node.children) if reads(child, name)]
        if not held:
            return True
        kind = {"Join": join_kind(node), "Side": "semi"}.get(node.cls)
        if kind is not None:
            if len(held) == 2:
                return False
            good = {"inner": (0, 1), "left": (0,), "right": (1,), "semi": (0,), "anti": (0,)}.get(kind, ())
            return held[0] in good and self.linear(node.children[held[0]], name)
        if node.cls in _ONE_BY_ONE or node.cls in ("Union", "Expand", "CTERelationRef"):
            return all(self.linear(node.children[i], name) for i in held)
        return False

    def additive(self, node: Node) -> bool:
        """f(A + a, B + b) - f(A, B) = f(a, b)."""
        if node.input is not None or self.constant(node):
            return True
        if node.cls == "Union":
            # Rows of a branch that never changes would come again with every epoch.
            return all(not self.constant(c) and self.additive(c) for c in node.children)
        child = node.children[0] if node.cls == "Expand" else self.through(node)
        return child is not None and self.additive(child)

    # --- occurrences

    def occurrences(self, node: Node) -> list[Node]:
        """The leaves that change, left to right."""
        if node.input is not None:
            return [] if node.input in self.fixed else [node]
        return [leaf for child in node.children for leaf in self.occurrences(child)]

    def part(self, leaf: Node) -> Node:
        """The largest row-by-row part over one leaf."""
        node = self.root
        while not self.row_by_row(node):
            node = next(c for c in node.children if any(x is leaf for x in self.occurrences(c)))
        while node.cls == "Side":  # virtual: the rows that it judges are the nearest that Spark knows
            node = node.children[0]
        return node


def reads(node: Node, name: str) -> bool:
    """Whether an input is among the leaves."""
    return any(n.input == name for n in node.walk())


def grouping_sets(node: Node) -> bool:
    """Whether an Expand stands for ROLLUP, CUBE or GROUPING SETS: then its rows lose their group in some copies."""
    return node.cls == "Expand" and any((a.name or "").startswith("spark_grouping_id") for a in node.output)


def _session_windows(root: Node) -> frozenset[int]:
    """Ids of session windows, and of columns made from them: their value depends on other rows."""
    found: set[int] = set()
    todo = True
    while todo:
        todo = False
        for node in root.everything():
            for expr in node.all_exprs():
                if expr.cls == "Alias" and expr.id is not None and expr.id not in found and _is_session(expr, found):
                    found.add(expr.id)
                    todo = True
    return frozenset(found)


def _is_session(alias: Expr, known: set[int]) -> bool:
    inner = alias.children[0]
    own = (
        alias.name == "session_window"
        and inner.cls == "CreateNamedStruct"
        and any(e.cls == "PreciseTimestampConversion" for e in inner.walk())
    )
    return own or bool(inner.attributes & known)


# --- partitions -------------------------------------------------------------------------------------------------------

Recipe = Expr
"""How a component follows from a list G of expressions: an expression over placeholders `$i`."""
Follows = Callable[[Sequence[Expr | None]], dict[Recipe, int]]
"""All recipes for a component from G: 2 where it always follows, 1 unless that value is null."""


@dataclass(frozen=True)
class Component:
    """One component of the partition tuple: an expression for each occurrence, and how it follows from columns above."""

    leafs: Mapping[Path, Expr]
    follows: Follows


def _placeholder(i: int) -> Recipe:
    return Expr("$", (), (("i", str(i)),))


def rewrite(expr: Expr, given: Sequence[Expr | None]) -> list[Recipe]:
    """All ways to compute an expression from the values of the given ones."""
    found = [_placeholder(i) for i, g in enumerate(given) if g is not None and g == expr]
    if expr.cls in ("Literal", "One"):
        found.append(expr)
    elif expr.children and expr.plan is None:
        ways = [rewrite(child, given) for child in expr.children]
        if all(ways):
            found += [replace(expr, children=c) for c in itertools.islice(itertools.product(*ways), 8)]
    return list(once(found))


def fill(recipe: Recipe, given: Sequence[Expr]) -> Expr:
    """The expression that a recipe makes from the given ones."""
    if recipe.cls == "$":
        return given[int(recipe.values[0][1])]
    return replace(recipe, children=tuple(fill(c, given) for c in recipe.children)) if recipe.children else recipe


def _same_on_equal(recipe: Recipe, given: Sequence[Expr | None]) -> bool:
    """Whether equal values of G give equal components: a function may tell -0.0 from 0.0, or 'a' from 'A'."""
    used = [given[int(e.values[0][1])] for e in recipe.walk() if e.cls == "$"]
    if any(g is None or collated(g) for g in used):
        return False
    return recipe.cls == "$" or not any(g is None or floating(type_of(g)) for g in used)


def null_on_null(expr: Expr) -> bool:
    """Whether it is null when its columns are."""
    if expr.cls == "AttributeReference":
        return True
    if expr.cls in ("Add", "Subtract", "Multiply", "Divide", "Remainder", "Pmod"):
        return any(map(null_on_null, expr.children))
    if expr.cls in (
        "Cast",
        "UnaryMinus",
        "UnaryPositive",
        "Abs",
        "Upper",
        "Lower",
        "GetStructField",
        "Year",
        "Month",
        "DayOfMonth",
    ):
        return null_on_null(expr.children[0])
    return False


def pairs_of(node: Node) -> list[Pair]:
    """The equalities through which the two sides of a join or `Side` meet."""
    if node.cls == "Side":
        return list(zip(node.exprs["left"], node.exprs["right"], node.raw["safe"], strict=True))
    if node.cls in ("FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"):
        counts = node.raw["leftGroupingLen"], node.raw["rightGroupingLen"]
        lefts, rights = (child.output[:n] for child, n in zip(node.children, counts, strict=True))
        return [(left, right, True) for left, right in zip(lefts, rights, strict=True)]
    if node.cls != "Join" or "condition" not in node.exprs:
        return []
    left, right = ({a.id for a in child.output} for child in node.children)
    found: list[Pair] = []
    for term in terms(node.exprs["condition"][0]):
        if term.cls not in ("EqualTo", "EqualNullSafe") or any(e.plan is not None for e in term.walk()):
            continue
        for x, y in (term.children, tuple(reversed(term.children))):
            if x.attributes and y.attributes and x.attributes <= left and y.attributes <= right:
                found.append((x, y, term.cls == "EqualNullSafe"))
                break
    return found


class Partitions:
    """Finds the components of a plan, bottom up, from what its operators ask for, top down."""

    def __init__(self, traits: Traits) -> None:
        self.traits = traits
        self.asked: dict[Node, dict[Expr, None]] = {}

    def of(self, root: Node) -> list[Component]:
        """Components along which the result falls apart, the simplest first. Empty: the whole table."""
        self._ask(root, once(root.output))
        live = {leaf.path for leaf in self.traits.occurrences(root)}
        found = [Component({p: e for p, e in c.leafs.items() if p in live}, c.follows) for c in self._components(root)]
        return [c for c in found if any(e != ONE for e in c.leafs.values())]

    # Top down: what is grouped, joined or partitioned by, in terms of the row-by-row parts.

    def _usable(self, expr: Expr) -> bool:
        return not (expr.attributes & self.traits.sessions) and bool(expr.attributes) and not collated(expr)

    def _ask(self, node: Node, wanted: Mapping[Expr, None]) -> None:
        wanted = {e: None for e in wanted if self._usable(e)}
        if self.traits.constant(node) or self.traits.row_by_row(node):
            self.asked.setdefault(node, {}).update(wanted)
            return
        for child, asked in zip(node.children, self._asked_below(node, wanted), strict=True):
            self._ask(child, asked)

    def _asked_below(self, node: Node, wanted: Mapping[Expr, None]) -> list[dict[Expr, None]]:
        if len(node.children) == 2 and node.cls in ("Join", "Side", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"):
            return self._asked_of_sides(node, wanted)
        if node.cls in ("Union", "Except", "Intersect"):
            return [once([*child.output, *(substitute(e, _by_position(node, child)) for e in wanted)]) for child in node.children]
        below = once(_demands(node))  # first: where there are too many, those that the result hangs on stay
        below |= once(substitute(e, self.definitions(node)) for e in wanted)
        return [dict(below) for _ in node.children]

    def _asked_of_sides(self, node: Node, wanted: Mapping[Expr, None]) -> list[dict[Expr, None]]:
        left, right = (once(substitute(e, _itself(child)) for e in wanted) for child in node.children)
        pairs = pairs_of(node)
        lefts, rights = [p[0] for p in pairs], [p[1] for p in pairs]
        from_left = once(fill(r, rights) for e in left for r in rewrite(e, lefts))
        from_right = once(fill(r, lefts) for e in right for r in rewrite(e, rights))
        return [once(lefts) | from_right | left, once(rights) | from_left | right]

    # Bottom up: components, and how they follow from the columns of a node.

    def _components(self, node: Node) -> list[Component]:
        found = _tidy(self._own(node))
        return [*found, Component(dict.fromkeys(self._leafs(node), ONE), lambda given: {ONE: 2})]

    def _leafs(self, node: Node) -> list[Path]:
        """What has a tuple: occurrences, and constant subtrees where they do not just accompany another side's rows."""
        if self.traits.constant(node):
            return [node.path]
        if self.traits.row_by_row(node):
            return [self.traits.occurrences(node)[0].path]
        child = self.traits.through(node)
        below = node.children if child is None else (child,)
        return [path for c in below for path in self._leafs(c)]

    def _own(self, node: Node) -> list[Component]:
        traits = self.traits
        if traits.constant(node) or traits.row_by_row(node):
            (path,) = self._leafs(node)
            return [Component({path: e}, _follows(e)) for e in self.asked.get(node, {})]
        if node.cls in ("Join", "Side", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"):
            return self._of_sides(node)
        if node.cls == "Union":
            return self._of_union(node)
        if node.cls in ("Except", "Intersect"):
            return self._of_set_operation(node)
        if len(node.children) != 1:
            return []
        return self._of_one_child(node, self._components(node.children[0]))

    def _of_one_child(self, node: Node, below: list[Component]) -> list[Component]:
        defs = self.definitions(node)
        lifted = [Component(c.leafs, _lift(c.follows, defs)) for c in below]
        if node.cls in ("Aggregate", "Distinct", "Deduplicate"):
            lifted = [Component(c.leafs, _regrouped(c.follows)) for c in lifted]
        if node.cls in _ONE_BY_ONE or node.cls in ("CTERelationRef", "Expand"):
            return lifted
        demands = _demands(node)
        if not demands:
            return []
        return [up for up, c in zip(lifted, below, strict=True) if _strong(c, demands)]

    def definitions(self, node: Node, *, sessions: bool = False) -> dict[int | None, Expr | None]:
        """The columns of a node in terms of its child; None (or absent) where they do not trace, as session windows do not."""
        if not node.children:
            return {}
        below = _itself(node.children[0])
        if node.cls == "Project":
            named = node.exprs["projectList"]
        elif node.cls == "Aggregate":
            named = node.exprs["aggregateExpressions"]
        elif node.cls == "CTERelationRef":
            return dict(zip((a.id for a in node.output), node.children[0].output, strict=False))
        elif node.cls == "Expand":
            return _expand_definitions(node)
        elif node.cls in ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow") or node.cls not in _PASSING:
            return {}
        else:
            return below
        found: dict[int | None, Expr | None] = {}
        for expr in named:
            inner = expr.children[0] if expr.cls == "Alias" else expr
            blind = (not sessions and expr.id in self.traits.sessions) or any(
                e.plan is not None or e.cls in ("AggregateExpression", "WindowExpression") for e in inner.walk()
            )
            found[expr.id] = None if blind else inner
        return found

    def _of_union(self, node: Node) -> list[Component]:
        """The branches do not meet here: each may have its own component. What stands above needs one that all agree on."""
        branches = [self._components(child) for child in node.children]
        lifts = [_by_position(node, child) for child in node.children]
        found = [c for position in range(len(branches)) for c in self._of_one_branch(branches, position)]
        first, *others = (
            [(c, _lift(c.follows, defs)) for c in branch[:-1]] for branch, defs in zip(branches, lifts, strict=True)
        )
        for component, follows in first:
            for recipe in follows(node.output):
                rest = [next(((c, f) for c, f in other if recipe in f(node.output)), None) for other in others]
                chosen = [(component, follows), *(r for r in rest if r is not None)]
                if len(chosen) == len(branches):
                    leafs = {path: e for c, _ in chosen for path, e in c.leafs.items()}
                    found.insert(0, Component(leafs, _agreed([f for _, f in chosen])))
        return found

    def _of_one_branch(self, branches: list[list[Component]], position: int) -> list[Component]:
        """The components of one branch, the others being one partition each."""
        found = []
        for component in branches[position][:-1]:
            leafs: dict[Path, Expr] = {}
            for i, branch in enumerate(branches):
                leafs.update(component.leafs if i == position else branch[-1].leafs)
            found.append(Component(leafs, lambda given: {}))
        return found

    def _of_set_operation(self, node: Node) -> list[Component]:
        left, right = node.children
        found = []
        for x, y in itertools.product(self._components(left), self._components(right)):
            if once(_strong(x, left.output)).keys() & once(_strong(y, right.output)).keys():
                found.append(Component({**x.leafs, **y.leafs}, _regrouped(x.follows)))
        return found

    def _of_sides(self, node: Node) -> list[Component]:
        found = []
        child = self.traits.through(node)
        if child is not None:  # a join with a reference: what the other side allows passes
            return [Component(c.leafs, _lift(c.follows, _itself(child))) for c in self._components(child)]
        pairs = pairs_of(node)
        lefts, rights = [p[0] for p in pairs], [p[1] for p in pairs]
        kind = {"Join": join_kind(node), "Side": "side"}.get(node.cls, "cogroup")
        if kind not in ("inner", "left", "right", "full", "semi", "anti", "side", "cogroup"):
            return []
        for x, y in itertools.product(*map(self._components, node.children)):
            ways, others = x.follows(lefts), y.follows(rights)
            for recipe, strength in ways.items():
                if recipe not in others or not (_same_on_equal(recipe, lefts) and _same_on_equal(recipe, rights)):
                    continue
                weak = min(strength, others[recipe]) == 1
                pair = pairs[int(recipe.values[0][1])] if recipe.cls == "$" else None
                if weak and (pair is None or pair[2]):  # a null-filled column will do for `=` alone, where null meets nobody
                    continue
                follows = _above_join(node, kind, x, y, pair, strength, others[recipe])
                found.append(Component({**x.leafs, **y.leafs}, follows))
                break
        return found


_PASSING = _ONE_BY_ONE | frozenset("Side Distinct Deduplicate Window GlobalLimit LocalLimit Offset Tail".split())


def _itself(node: Node) -> dict[int | None, Expr | None]:
    return {a.id: a for a in node.output}


def _by_position(node: Node, child: Node) -> dict[int | None, Expr | None]:
    return dict(zip((a.id for a in node.output), child.output, strict=False))


def _expand_definitions(node: Node) -> dict[int | None, Expr | None]:
    """A column of an Expand traces where all its copies are the same."""
    columns: dict[int, set[Expr]] = {}
    for expr in node.exprs.get("projections", ()):
        assert expr.origin is not None
        columns.setdefault(expr.origin.index[-1], set()).add(expr)
    return {a.id: next(iter(columns[i])) if len(columns.get(i, ())) == 1 else None for i, a in enumerate(node.output)}


def _demands(node: Node) -> list[Expr]:
    """By what the node puts rows together; empty where by nothing (or by something that no rule knows)."""
    if node.cls == "Aggregate":
        return list(node.exprs.get("groupingExpressions", ()))
    if node.cls == "Window":
        return list(node.exprs.get("partitionSpec", ()))
    if node.cls == "Distinct":
        return list(node.output)
    if node.cls == "Deduplicate":
        return list(node.exprs.get("keys", ()))
    if node.cls in ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow"):
        return list(node.exprs.get("groupingAttributes", ()))
    return []


def _follows(expr: Expr) -> Follows:
    return lambda given: dict.fromkeys(rewrite(expr, given), 2)


def _lift(follows: Follows, defs: dict[int | None, Expr | None]) -> Follows:
    return lambda given: follows([substitute(g, defs) for g in given])


def _regrouped(follows: Follows) -> Follows:
    """Grouping shows one of several equal values: 0.0 for -0.0. A function of it may not be the function of each row's value."""

    def same(expr: Expr | None) -> Expr | None:
        if expr is None or expr.cls == "AttributeReference":
            return expr
        inside = (e for e in expr.walk() if e.cls == "AttributeReference")
        return None if any(floating(e.type) for e in inside) else expr

    return lambda given: follows([same(g) for g in given])


def _agreed(ways: list[Follows]) -> Follows:
    def follows(given: Sequence[Expr | None]) -> dict[Recipe, int]:
        first, *rest = (way(given) for way in ways)
        return {r: min([s, *(o[r] for o in rest)]) for r, s in first.items() if all(r in o for o in rest)}

    return follows


def _strong(component: Component, given: Sequence[Expr | None]) -> list[Recipe]:
    """The recipes by which a component follows from G for all values, equal for equal ones."""
    return [r for r, s in component.follows(given).items() if s == 2 and _same_on_equal(r, given)]


def _above_join(node: Node, kind: str, x: Component, y: Component, pair: Pair | None, strong_x: int, strong_y: int) -> Follows:
    """What the output columns of a join say about a component on which both sides agree."""
    left, right = (_itself(child) for child in node.children)
    keeps_left = kind in ("inner", "left", "semi", "anti", "side")
    keeps_right = kind in ("inner", "right")
    shows_right = kind in ("inner", "left", "right", "full")

    def follows(given: Sequence[Expr | None]) -> dict[Recipe, int]:
        out: dict[Recipe, int] = {}
        if kind == "cogroup":
            return out

        def add(recipe: Recipe, strength: int) -> None:
            out[recipe] = max(strength, out.get(recipe, 0))

        for component, defs, kept in ((x, left, keeps_left), (y, right, keeps_right)):
            if defs is right and not shows_right:
                continue
            for recipe, strength in component.follows([substitute(g, defs) for g in given]).items():
                if kept or recipe.cls in ("Literal", "One"):
                    add(recipe, strength)
                elif recipe.cls == "$" and _nullable_on_null(given, recipe):
                    add(recipe, 1)  # null there: from any partition
        if pair is not None:
            for recipe, strength in _pair_follows(kind, pair, given, strong_x, strong_y):
                add(recipe, strength)
        return out

    return follows


def _nullable_on_null(given: Sequence[Expr | None], recipe: Recipe) -> bool:
    expr = given[int(recipe.values[0][1])]
    return expr is not None and null_on_null(expr)


def _pair_follows(
    kind: str, pair: Pair, given: Sequence[Expr | None], strong_x: int, strong_y: int
) -> Iterable[tuple[Recipe, int]]:
    """A side of the pair, and `coalesce` over both sides, above the join."""
    left, right, safe = pair
    for i, expr in enumerate(given):
        if expr is None:
            continue
        if kind in ("inner", "semi") and not safe and expr in (left, right):
            yield _placeholder(i), 2
        both = expr.cls == "Coalesce" and expr.children in ((left, right), (right, left))
        if both and kind in ("inner", "left", "right", "full") and null_on_null(left) and null_on_null(right):
            by_kind = {"inner": 2 if not safe else strong_x, "left": strong_x, "right": strong_y}
            yield _placeholder(i), by_kind.get(kind, min(strong_x, strong_y))


def _size(component: Component) -> tuple[int, int]:
    ones = sum(e == ONE for e in component.leafs.values())
    return ones, sum(1 for e in component.leafs.values() for _ in e.walk())


def _tidy(components: list[Component]) -> list[Component]:
    """Each choice of leaf expressions once, the simplest first, and not too many."""
    merged: dict[tuple[tuple[Path, Expr], ...], list[Follows]] = {}
    for c in components:
        if all(e == ONE for e in c.leafs.values()):
            continue
        merged.setdefault(tuple(c.leafs.items()), []).append(c.follows)
    found = [Component(dict(key), _any_of(ways)) for key, ways in merged.items()]
    return sorted(found, key=_size)[:_MOST]


def _any_of(ways: list[Follows]) -> Follows:
    if len(ways) == 1:
        return ways[0]

    def follows(given: Sequence[Expr | None]) -> dict[Recipe, int]:
        out: dict[Recipe, int] = {}
        for way in ways:
            for recipe, strength in way(given).items():
                out[recipe] = max(strength, out.get(recipe, 0))
        return out

    return follows


def finest(components: list[Component]) -> list[Component]:
    """Components that make the finest tuple, without those that follow from the ones before."""
    chosen: list[Component] = []
    for candidate in components:
        new = [
            path
            for path, expr in candidate.leafs.items()
            if expr != ONE and not rewrite(expr, [c.leafs.get(path) for c in chosen if c.leafs.get(path) != ONE])
        ]
        if new:
            chosen.append(candidate)
    return chosen


def output_tuple(components: list[Component], output: Sequence[Expr]) -> tuple[Expr, ...] | None:
    """The tuple as expressions over the result's columns, or None where they do not hold it."""
    found = []
    for component in components:
        recipes = [r for r in _strong(component, output) if r != ONE]
        if not recipes:
            return None
        found.append(fill(min(recipes, key=lambda r: sum(1 for _ in r.walk())), output))
    return tuple(found)
