"""Surgery on analysed plans: find a node by its path, carry a row's identity upwards, put another node in a node's place.

The planner (pure Python) says *where* by paths and locators; this module fetches the JVM's own objects there and builds
with them. Nothing is printed as SQL and parsed again, so no expression can change its meaning on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

JvmNode = Any
JvmExpression = Any


@dataclass(frozen=True)
class Leaf:
    """A leaf on the way to which columns are carried; `columns` makes them from what the leaf's relation has."""

    path: Sequence[Any]
    columns: Callable[[Surgeon, list[JvmExpression]], list[JvmExpression]]

    def below(self) -> Leaf:
        """The same leaf, one step nearer."""
        return Leaf(self.path[1:], self.columns)


class Surgeon:
    """Works on the analysed plans of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._logical = jvm.org.apache.spark.sql.catalyst.plans.logical
        self._expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
        # Each name that is looked up in a package is a question to the JVM: what epochs need is looked up once.
        self._of_rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows
        self._array_list = jvm.java.util.ArrayList
        self._to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._local_relation = self._logical.LocalRelation

    # --- between Spark's Python and the JVM

    def analysed(self, frame: DataFrame) -> JvmNode:
        """The analysed plan of a frame, its CTEs put where they are used (so that paths lead to their leaves)."""
        plan = frame._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "WithCTE" and "CTE" not in plan.treeString():
            return plan
        return self._jvm.org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False, False).apply(plan)

    def frame(self, node: JvmNode) -> DataFrame:
        """A plan as a frame again."""
        return DataFrame(self._of_rows(self.spark._jsparkSession, node), self.spark)

    def column(self, expression: JvmExpression) -> Column:
        """An expression of an analysed plan as a column."""
        return Column(self._utils.column(expression))

    def expression(self, column: Column) -> JvmExpression:
        """A column's expression."""
        return self.spark._jsparkSession.expression(column._jc)

    def seq(self, items: Iterable[Any]) -> Any:
        """A Scala sequence."""
        listed = self._array_list()
        for item in items:
            listed.add(item)
        return self._to_seq(listed)

    @staticmethod
    def items(seq: Any) -> list[Any]:
        """The members of a Scala sequence."""
        return [seq.apply(i) for i in range(seq.size())]

    # --- places

    def node(self, root: JvmNode, path: Sequence[Any]) -> JvmNode:
        """The node at a path of `headrace.plan.tree`: child indexes, and steps into the plans of subquery expressions."""
        for step in path:
            root = self._step(root, step)
        return root

    def _step(self, node: JvmNode, step: Any) -> JvmNode:
        if isinstance(step, int):
            return node.children().apply(step)
        expression = node.expressions().apply(step.ordinal)
        for child in step.subpath:
            expression = expression.children().apply(child)
        return expression.plan()

    # --- cutting and joining

    def with_child(self, node: JvmNode, index: int, child: JvmNode) -> JvmNode:
        """The node with another child."""
        children = self.items(node.children())
        children[index] = child
        return node.withNewChildren(self.seq(children))

    def replace(self, root: JvmNode, path: Sequence[Any], new: JvmNode) -> JvmNode:
        """The plan with another node at the path."""
        if not path:
            return new
        step, *rest = path
        return self.with_child(root, step, self.replace(root.children().apply(step), rest, new))

    def project(self, expressions: Iterable[JvmExpression], child: JvmNode) -> JvmNode:
        """A Project over a node."""
        return self._logical.Project(self.seq(expressions), child)

    def alias(self, expression: JvmExpression, name: str, like: JvmExpression | None = None) -> JvmExpression:
        """An expression with a name; with the expression id of `like`, whatever refers to that refers to this."""
        nothing = self._jvm.scala.Option.empty()
        identity = like.exprId() if like is not None else self._expressions.NamedExpression.newExprId()
        qualifier = like.qualifier() if like is not None else self.seq([])
        return self._expressions.Alias(expression, name, identity, qualifier, nothing, self.seq([]))

    def carry(self, node: JvmNode, leaves: Sequence[Leaf]) -> tuple[JvmNode, list[JvmExpression]]:
        """The row-by-row part `node` with more columns, which its leaves make, among its output.

        A leaf's path ends at the Project that shows the input's columns. Every Project on the way gets the columns too;
        names of subqueries and views are dropped, since attributes are found by id. Where a union has leaves in all its
        branches, the new columns are united as the others are.
        """
        if not leaves[0].path:
            (leaf,) = leaves
            new = leaf.columns(self, self.items(node.child().output()))
            return self.project([*self.items(node.projectList()), *new], node.child()), [e.toAttribute() for e in new]
        kind = node.getClass().getSimpleName()
        if kind == "Union":
            return self._carry_union(node, leaves)
        step = leaves[0].path[0]
        assert all(leaf.path[0] == step for leaf in leaves), f"{kind} is not row by row in two of its children"
        child, carried = self.carry(node.children().apply(step), [leaf.below() for leaf in leaves])
        if kind == "Project":
            return self.project([*self.items(node.projectList()), *carried], child), carried
        if kind in ("SubqueryAlias", "View"):
            return child, carried
        return self.with_child(node, step, child), carried

    def _carry_union(self, node: JvmNode, leaves: Sequence[Leaf]) -> tuple[JvmNode, list[JvmExpression]]:
        children, count = [], 0
        for i, child in enumerate(self.items(node.children())):
            branch, carried = self.carry(child, [leaf.below() for leaf in leaves if leaf.path[0] == i])
            count = len(carried)
            shown = self.items(child.output())
            # The carried columns must be the last ones in every branch: a Filter or a join may have put others behind them.
            children.append(self.project([*shown, *carried], branch))
        united = node.withNewChildren(self.seq(children))
        return united, self.items(united.output())[-count:]

    def rewrite(self, expression: JvmExpression, change: Callable[[JvmExpression], JvmExpression | None]) -> JvmExpression:
        """The expression with every part replaced for which `change` gives another one, from the top down."""
        new = change(expression)
        if new is not None:
            return new
        children = self.items(expression.children())
        if not children:
            return expression
        changed = [self.rewrite(child, change) for child in children]
        if all(a is b for a, b in zip(changed, children, strict=True)):
            return expression
        return expression.withNewChildren(self.seq(changed))

    def aggregates_in(self, expression: JvmExpression) -> Iterator[JvmExpression]:
        """The aggregate expressions in an expression, in the order in which they stand."""
        if expression.getClass().getSimpleName() == "AggregateExpression":
            yield expression
        else:
            for child in self.items(expression.children()):
                yield from self.aggregates_in(child)

    def evaluated(self, function: JvmExpression, buffers: Sequence[Column]) -> JvmExpression:
        """What an aggregate function makes of its buffers, these columns standing for them."""
        ids = [b.exprId() for b in self.items(function.aggBufferAttributes())]
        given = [self.expression(column) for column in buffers]

        def replaced(expression: JvmExpression) -> JvmExpression | None:
            if expression.getClass().getSimpleName() != "AttributeReference":
                return None
            return next((new for i, new in zip(ids, given, strict=True) if i.equals(expression.exprId())), None)

        return self.rewrite(function.evaluateExpression(), replaced)

    def local_relation(self, output: Any, like: JvmNode) -> JvmNode:
        """The rows of a LocalRelation under other attributes."""
        return self._local_relation(output, like.data(), like.isStreaming(), like.stream())
