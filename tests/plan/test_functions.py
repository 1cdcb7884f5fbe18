"""Every function of Spark's registry is decided, and what is refused names its alternative."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.errors import NotKeptUp
from headrace.plan.choose import TablePlan, plan_table
from headrace.plan.functions import CLASSES, INTERNAL, NAMES, REFUSED, refusal_of
from tests.plan.conftest import INPUTS, Query, analysed, table


def registry(spark: SparkSession) -> dict[str, str]:
    """Spark's built-in functions: name -> class."""
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = spark._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    found = {}
    for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect():
        name = row[0]
        try:
            found[name] = catalog.lookupFunctionInfo(identifier(name)).getClassName().rsplit(".", 1)[-1]
        except Exception:  # operators such as <> are listed, but have no entry
            found[name] = ""
    return found


def test_every_function_of_the_registry_is_decided(spark: SparkSession) -> None:
    names = set(registry(spark))
    assert names - NAMES - set(REFUSED) == set()
    assert NAMES & set(REFUSED) == set()


def test_classes_agree_with_names(spark: SparkSession) -> None:
    for name, cls in registry(spark).items():
        if cls and not cls.endswith("Builder"):
            assert (refusal_of(cls) is None) == (name in NAMES), (name, cls)


def test_a_function_of_a_later_spark_is_refused() -> None:
    refusal = refusal_of("BrandNewFunction")
    assert refusal is not None
    assert "decided" in refusal.why
    assert not CLASSES & INTERNAL


PASSING = (
    "hour(time)|minute(time)|date_trunc('day', time)|to_date(k)|try_to_timestamp(k)|make_date(2026, n, 1)|date_add(day, n)|"
    "datediff(day, day)|time + INTERVAL 1 DAY|extract(YEAR FROM time)|date_format(time, 'HH')|unix_timestamp(k)|time - time|"
    "timestampdiff(HOUR, time, time)|upper(k)|k LIKE 'a%'|k RLIKE 'a'|lpad(k, 3, '0')|split(k, ',')[0]|"
    "substring(k, 1, 2)|regexp_extract(k, 'a(b)', 1)|n BETWEEN 1 AND 2|CASE WHEN n > 1 THEN 1 ELSE 2 END|if(ok, 1, 2)|"
    "nvl(n, 1)|nullif(n, 1)|coalesce(n, 1)|greatest(n, g)|round(x, 2)|floor(x)|ceil(x)|n % 3|n div 2|try_divide(n, g)|"
    "try_add(n, g)|try_cast(k AS INT)|size(tags)|transform(tags, v -> upper(v))|filter(tags, v -> v > 'a')|"
    "aggregate(tags, 0, (a, v) -> a + 1)|array_sort(tags)|array_contains(tags, 'a')|map_keys(m)|m['a']|s.a|element_at(tags, 1)|"
    "to_json(s)|from_json(k, 'a INT').a|get_json_object(k, '$.a')|md5(k)|xxhash64(k)|named_struct('a', n).a|n IN (1, 2)|"
    "n <=> g|cast(n AS STRING)|typeof(n)|parse_url(k, 'HOST')|window(time, '1 hour').start|assert_true(n > 1)|bin(n)|ascii(k)|"
    "contains(k, 'a')|startswith(k, 'a')|concat_ws(',', tags)|cardinality(m)|percentile_cont(0.5) WITHIN GROUP (ORDER BY n)|"
    "approx_count_distinct(k)|median(n)|mode() WITHIN GROUP (ORDER BY n)|size(collect_set(n))|bool_and(ok)|try_sum(n)"
).split("|")


@pytest.mark.parametrize("expression", [*PASSING, "k || 'a'"])
def test_functions_that_rows_decide_pass(expression: str, plan: Callable[..., TablePlan]) -> None:
    text = f"SELECT id, {expression} AS y FROM events" if not _aggregate(expression) else f"SELECT {expression} AS y FROM events"
    plan(text, ("y",))


def _aggregate(expression: str) -> bool:
    return any(w in expression for w in ("percentile", "approx_", "median", "mode(", "collect_", "bool_and", "try_sum"))


REFUSALS: list[tuple[Query, str, str]] = [
    ("SELECT rand() AS r FROM events", "uses rand(), whose value would differ", "hr.random(seed=7)"),
    ("SELECT uuid() AS r FROM events", "uses uuid()", "hr.random"),
    ("SELECT k FROM events WHERE time > current_timestamp()", "uses current_timestamp()", "hr.now()"),
    ("SELECT k FROM events WHERE day = current_date()", "uses current_date()", "hr.now()"),
    ("SELECT unix_timestamp() AS u FROM events", "uses current_timestamp()", "hr.now()"),
    ("SELECT monotonically_increasing_id() AS i FROM events", "monotonically_increasing_id()", "_partition and _offset"),
    ("SELECT input_file_name() AS f FROM events", "input_file_name()", "_offset"),
    ("SELECT current_user() AS u FROM events", "current_user()", ""),
    ("SELECT version() AS v FROM events", "version()", ""),
    ("SELECT shuffle(tags) AS s FROM events", "shuffle()", "hr.random"),
    ("SELECT k, first(n) AS f FROM events GROUP BY k", "uses first(), which takes whichever row comes first", "min_by"),
    ("SELECT k, any_value(n) AS f FROM events GROUP BY k", "uses any_value()", "min(x)"),
    ("SELECT k, collect_list(n) AS l FROM events GROUP BY k", "uses collect_list()", "array_sort(collect_list(x))"),
    ("SELECT k, collect_set(n) AS l FROM events GROUP BY k", "uses collect_set()", "array_sort(collect_set(x))"),
    ("SELECT k, mode(n) AS m FROM events GROUP BY k", "uses mode()", "WITHIN GROUP"),
    ("SELECT k, listagg(k, ',') AS m FROM events GROUP BY k", "uses list_agg()", "WITHIN GROUP"),
    ("SELECT k, approx_percentile(n, 0.5) AS p FROM events GROUP BY k", "moves with the partitioning", "percentile(x, 0.5)"),
    ("SELECT k, corr(n, x) AS c FROM events GROUP BY k", "uses corr()", "sum(x * y)"),
    ("SELECT k, hll_sketch_agg(n) AS c FROM events GROUP BY k", "hll_sketch_agg()", "approx_count_distinct"),
    ("SELECT k FROM events LIMIT 3", "uses LIMIT without ORDER BY", "ORDER BY"),
    ("SELECT k FROM events TABLESAMPLE (10 PERCENT)", "uses sample()", "hr.random(seed=7)"),
    (lambda events: events.sample(0.5), "uses sample()", "hr.random(seed=7)"),
    (lambda events: events.dropDuplicates(["k"]), "uses dropDuplicates on k", 'hr.latest(..., by="k"'),
    (lambda events: events.mapInPandas(lambda b: b, "k STRING"), "uses mapInPandas", "applyInPandas"),
    (lambda events: events.mapInArrow(lambda b: b, "k STRING"), "uses mapInArrow", "applyInPandas"),
    (
        lambda events: events.join(events.sparkSession.createDataFrame([(1,)], "n INT"), "n"),
        "rows that it made itself",
        "app.reference",
    ),
    (lambda events: events.sparkSession.range(3).withColumn("r", F.rand()), "uses rand()", "hr.random(seed=7)"),
    (
        lambda events: events.select(F.udf(lambda n: n, "int").asNondeterministic()("n").alias("u")),
        "declared to be not deterministic",
        "columns alone",
    ),
]


@pytest.mark.parametrize(("query", "why", "instead"), REFUSALS)
def test_what_cannot_be_kept_up_names_the_alternative(
    query: Query, why: str, instead: str, plan: Callable[..., TablePlan]
) -> None:
    with pytest.raises(NotKeptUp) as failed:
        plan(query, ("k",))
    text = failed.value.render()
    assert text.startswith('table "t" cannot be kept up to date\n  app.py:12  uses ')
    assert why in text
    assert instead in text


def test_an_input_of_another_table_is_named(frames: dict[str, DataFrame]) -> None:
    query = "SELECT name FROM users"
    with pytest.raises(NotKeptUp, match='"users", which is not one of its inputs'):
        plan_table(analysed(frames, query), table(query), {k: v for k, v in INPUTS.items() if k != "users"})
