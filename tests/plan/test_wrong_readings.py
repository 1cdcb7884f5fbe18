"""Every reading of the rules that was tempting and wrong: what the planner must not say, and what it says instead.

The names are those under which each reading was shown to give wrong numbers. Readings that concern how an epoch is run, not
what the plan says, are tests of the facts on which the lanes decide: occurrences, `linear`, `output_tuple`, `merge`.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.plan.choose import TablePlan

Plan = Callable[..., TablePlan]


def tuples(plan: TablePlan) -> list[tuple[str, ...]]:
    return [tuple(map(str, o.tuple)) for o in plan.occurrences]


def test_null_filled_traces(plan: Plan) -> None:
    """Rows of many tuples meet in the NULL of the right side."""
    query = "SELECT u.id, count(DISTINCT e.k) AS c FROM events e LEFT JOIN users u ON e.id = u.id GROUP BY u.id"
    assert plan(query).whole
    kept = "SELECT e.id, count(DISTINCT u.name) AS c FROM events e LEFT JOIN users u ON e.id = u.id GROUP BY e.id"
    assert tuples(plan(kept)) == [("id",), ("id",)]
    full = "SELECT e.id, count(*) AS c FROM events e FULL JOIN users u ON e.id = u.id GROUP BY e.id"
    assert plan(full).whole


def test_null_filled_side_of_an_equality(plan: Plan) -> None:
    """NULL rows of a null-filled column meet nobody through `=`, so there it may be a side of a pair."""
    query = "SELECT e.id, c.page FROM events e LEFT JOIN users u ON e.id = u.id JOIN clicks c ON u.id = c.id"
    assert tuples(plan(query, ("id",))) == [("id",), ("id",), ("id",)]


def test_nullsafe_weak(plan: Plan) -> None:
    """Through `<=>` the NULL rows of many tuples meet."""
    query = "SELECT e.id, c.page FROM events e LEFT JOIN users u ON e.id = u.id JOIN clicks c ON u.id <=> c.id"
    assert plan(query, ("id",)).whole
    plain = "SELECT e.id, c.page FROM events e JOIN clicks c ON e.id <=> c.id"
    assert tuples(plan(plain, ("id",))) == [("id",), ("id",)]


def test_coalesce_of_expressions(plan: Plan) -> None:
    """coalesce over a pair traces only where both sides are NULL when their columns are."""
    full = "SELECT {0} AS id, count(*) AS c FROM events e FULL JOIN users u ON {1} = {2} GROUP BY {0}"
    good = full.format("coalesce(e.id, u.id)", "e.id", "u.id")
    assert tuples(plan(good)) == [("id",), ("id",)]
    bad = full.format("coalesce(coalesce(e.id, 0), coalesce(u.id, 0))", "coalesce(e.id, 0)", "coalesce(u.id, 0)")
    assert plan(bad).whole


def test_not_in_nullable(plan: Plan) -> None:
    """One NULL on the right removes every row of NOT IN."""
    assert plan("SELECT id FROM events WHERE id NOT IN (SELECT id FROM users)", ("id",)).whole
    assert plan("SELECT sure FROM events WHERE sure NOT IN (SELECT id FROM users)", ("sure",)).whole
    assert not plan("SELECT sure FROM events WHERE sure NOT IN (SELECT sure FROM users)", ("sure",)).whole


def test_not_in_where_filters_keep_nulls_out(plan: Plan) -> None:
    query = "SELECT id FROM events WHERE {0} id NOT IN (SELECT id FROM users {1})"
    left, right = "id IS NOT NULL AND", "WHERE id IS NOT NULL"
    assert tuples(plan(query.format(left, right), ("id",))) == [("id",), ("id",)]
    assert plan(query.format(left, ""), ("id",)).whole
    assert plan(query.format("", right), ("id",)).whole
    assert plan(query.format("id IS NOT NULL OR", right), ("id",)).whole
    assert plan(query.format(left, "WHERE id IS NOT NULL OR age > 1"), ("id",)).whole
    assert plan(query.format("n IS NOT NULL AND", right), ("id",)).whole


def test_in_as_value(plan: Plan) -> None:
    """The value of IN is NULL or false by rows of other tuples."""
    assert plan("SELECT id, id IN (SELECT id FROM users) AS known FROM events", ("id",)).whole
    assert plan("SELECT id FROM events WHERE n > 1 OR id IN (SELECT id FROM users)", ("id",)).whole
    assert plan("SELECT id FROM events WHERE NOT (id IN (SELECT id FROM users) AND n > 1)", ("id",)).whole


def test_reference_anywhere(plan: Plan) -> None:
    """A reference on the preserved side of an outer join shows its own rows."""
    got = plan("SELECT p.k, e.n FROM prices p LEFT JOIN events e ON p.k = e.k", ("k",))
    assert got.lane == "recompute"
    assert plan("SELECT p.k FROM prices p LEFT SEMI JOIN events e ON p.k = e.k", ("k",)).lane == "recompute"
    assert plan("SELECT p.k, e.n FROM prices p FULL JOIN events e ON p.k = e.k", ("k",)).lane == "recompute"
    assert plan("SELECT p.k, e.n FROM prices p LEFT JOIN events e ON p.price < e.n", ("k",)).whole
    assert plan("SELECT p.k, count(e.n) AS c FROM prices p LEFT JOIN events e ON p.k = e.k GROUP BY p.k").lane == "recompute"


def test_reference_under_a_union_or_set_operation(plan: Plan) -> None:
    assert plan("SELECT k FROM events EXCEPT SELECT k FROM prices", ("k",)).lane == "recompute"
    got = plan("SELECT k, count(DISTINCT n) AS c FROM (SELECT k, n FROM events UNION ALL SELECT k, 1 FROM prices) GROUP BY k")
    assert tuples(got) == [("k",)]


def test_stored_unfiltered(plan: Plan) -> None:
    """Where an input occurs twice, rows of untouched tuples come along: the tuple over the output says which."""
    got = plan("SELECT a.id, b.g FROM events a JOIN events b ON a.id = b.g", ("id",))
    assert len(got.occurrences) == 2
    assert got.output_tuple is not None
    assert [str(e) for e in got.output_tuple] == ["id"]


def test_stored_null_filled(plan: Plan) -> None:
    """Stored rows cannot be found by a column that is NULL for rows of any tuple."""
    assert plan("SELECT u.id, e.n FROM events e LEFT JOIN users u ON e.id = u.id", ("id", "n")).output_tuple is None
    assert plan("SELECT e.id, e.n FROM events e LEFT JOIN users u ON e.id = u.id", ("id", "n")).output_tuple is not None


def test_stored_with_linear(plan: Plan) -> None:
    """Both facts are said apart; a lane that takes the linear short cut makes both runs."""
    got = plan("SELECT e.id, c.page FROM events e JOIN clicks c ON e.id = c.id", ("id",))
    assert got.linear == {"events", "clicks"}
    assert got.output_tuple is not None


def test_every_row_against_stored(plan: Plan) -> None:
    """Without the tuple in the output there is no set of stored rows to compare with: two runs."""
    got = plan("SELECT e.n, c.page FROM events e JOIN clicks c ON e.id = c.id", ("n",))
    assert got.output_tuple is None


def test_linear_skip_empty_and_subtract_empty(plan: Plan) -> None:
    """A union's other branch cancels only when both runs are made: the input is linear, and the plan is no plain append of it."""
    got = plan("SELECT id FROM events e LEFT ANTI JOIN users u USING (id) UNION ALL SELECT id FROM clicks", ("id",))
    assert got.linear == {"events", "clicks"}
    assert got.lane == "recompute"


def test_linear_twice(plan: Plan) -> None:
    assert plan("SELECT a.id FROM events a JOIN events b ON a.id = b.id", ("id",)).linear == frozenset()
    branches = "SELECT id FROM events e LEFT SEMI JOIN users u USING (id) UNION ALL SELECT id FROM events"
    assert plan(branches, ("id",)).linear == {"events"}


def test_linear_changed_rest(plan: Plan) -> None:
    """Linearity is said per input: where two changed in one partition neither may be cut short."""
    got = plan("SELECT e.id FROM events e JOIN clicks c ON e.id = c.id JOIN users u ON e.id = u.id", ("id",))
    assert got.linear == {"events", "clicks", "users"}
    assert tuples(got) == [("id",), ("id",), ("id",)]


def test_linear_other_side(plan: Plan) -> None:
    assert plan("SELECT e.id FROM events e LEFT JOIN clicks c ON e.id = c.id", ("id",)).linear == {"events"}
    assert plan("SELECT e.id FROM events e LEFT SEMI JOIN clicks c ON e.id = c.id", ("id",)).linear == {"events"}
    assert plan("SELECT e.id FROM events e LEFT ANTI JOIN clicks c ON e.id = c.id", ("id",)).linear == {"events"}
    assert plan("SELECT c.id FROM events e RIGHT JOIN clicks c ON e.id = c.id", ("id",)).linear == {"clicks"}
    assert plan("SELECT id FROM events WHERE id IN (SELECT id FROM clicks)", ("id",)).linear == {"events"}
    assert plan("SELECT k, count(*) AS c FROM events GROUP BY k").linear == frozenset()


def test_merge_self_join(plan: Plan) -> None:
    got = plan("SELECT a.k, count(*) AS c FROM events a JOIN events b ON a.k = b.k GROUP BY a.k")
    assert got.lane == "recompute"
    assert tuples(got) == [("k",), ("k",)]


def test_merge_min_kept(plan: Plan) -> None:
    """Over rows that may vanish a minimum is not united: its group is computed anew."""
    got = plan("SELECT team, min(age) AS youngest FROM users GROUP BY team")
    assert got.lane == "recompute"
    assert tuples(got) == [("team",)]
    assert plan("SELECT k, min(n) AS least FROM events GROUP BY k").lane == "merge"


def test_merge_empty_group(plan: Plan) -> None:
    """The one group of an aggregate without GROUP BY stays at 0 rows, all others go: `grouping` tells which it is."""
    one = plan("SELECT count(*) AS c FROM users").merge
    many = plan("SELECT team, count(*) AS c FROM users GROUP BY team").merge
    assert one is not None
    assert one.grouping == ()
    assert many is not None
    assert [str(e) for e in many.grouping] == ["team"]


def test_function_of_group(plan: Plan) -> None:
    """A function of a double tells -0.0 from 0.0, which are one group."""
    nested = "SELECT {0} AS y, count(*) AS c FROM (SELECT {1}, count(DISTINCT k) AS d FROM events GROUP BY {1}) GROUP BY {0}"
    assert plan(nested.format("CAST(x AS STRING)", "x")).whole
    assert plan(nested.format("1 / x", "x")).whole
    assert tuples(plan(nested.format("n % 10", "n"))) == [("n % 10",)]
    assert tuples(plan(nested.format("x", "x"))) == [("x",)]


def test_function_of_a_group_is_not_the_function_of_its_rows(plan: Plan) -> None:
    """A group shows 0.0 where its rows held -0.0, so a cast of the shown value is not the tuple."""
    inner = "SELECT x, CAST(x AS STRING) AS y, count(DISTINCT n) AS c FROM events GROUP BY x, CAST(x AS STRING)"
    got = plan(f"SELECT c, CAST(x AS STRING) AS z FROM ({inner})", ("z",))
    assert not got.whole
    assert got.output_tuple is None


def test_function_of_group_over_a_collation(plan: Plan) -> None:
    query = "SELECT {0} AS y, count(DISTINCT n) AS c FROM (SELECT collate(k, 'UTF8_LCASE') AS k, n FROM events) GROUP BY {0}"
    assert plan(query.format("k")).whole
    assert plan(query.format("upper(k)")).whole


def test_touch_after_only(plan: Plan) -> None:
    """An occurrence of a table has a tuple of its own, to be taken of its rows before and after."""
    got = plan("SELECT team, percentile(age, 0.5) AS p FROM users GROUP BY team")
    assert [(o.input, [str(e) for e in o.tuple]) for o in got.occurrences] == [("users", ["team"])]


def test_touch_one_occurrence(plan: Plan) -> None:
    got = plan("SELECT a.id, b.n FROM events a JOIN events b ON a.id = b.g", ("id",))
    assert [o.input for o in got.occurrences] == ["events", "events"]
    assert got.occurrences[0].leaf != got.occurrences[1].leaf
    assert tuples(got) == [("id",), ("CAST(g AS LONG)",)]


def test_window_any(plan: Plan) -> None:
    assert plan("SELECT k, row_number() OVER (ORDER BY id, time, n) AS r FROM events", ("r",)).whole
    group = "SELECT k, max(r) AS m FROM (SELECT k, sum(n) OVER (PARTITION BY g) AS r FROM events) GROUP BY k"
    assert plan(group).whole


def test_union_one_branch(plan: Plan) -> None:
    """A column of one branch alone is no tuple for what stands above the union."""
    query = "SELECT k, count(DISTINCT n) AS c FROM (SELECT {0} AS k, n FROM events UNION ALL SELECT k, n FROM clicks) GROUP BY k"
    assert tuples(plan(query.format("k"))) == [("k",), ("k",)]
    branches = "SELECT k AS c, n FROM events UNION ALL SELECT max(k) AS c, n FROM clicks GROUP BY n"
    computed = f"SELECT c, count(*) AS d FROM ({branches}) GROUP BY c"
    assert plan(computed).whole


def test_an_input_without_change_counts_as_a_reference(plan: Plan) -> None:
    query = "SELECT id FROM events WHERE n > (SELECT avg(n) FROM clicks)"
    assert plan(query, ("id",)).whole
    assert plan(query, ("id",), unchanged=frozenset(["clicks"])).lane == "append"
