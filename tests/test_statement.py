"""What an SQL statement reads."""

from __future__ import annotations

import pytest

from headrace.origin import Origin
from headrace.statement import inputs_of


@pytest.mark.parametrize(
    ("query", "reads"),
    [
        ('SELECT action, WINDOW(time, "1 hour"), COUNT(*) FROM events GROUP BY action, WINDOW(time, "1 hour")', {"events"}),
        ("SELECT \"FROM ghosts\" AS t, 'FROM ghosts' FROM events -- FROM ghosts", {"events"}),
        ("SELECT * FROM a JOIN `b` USING (id) WHERE x IN (SELECT y FROM c) AND EXISTS (SELECT 1 FROM d)", {"a", "b", "c", "d"}),
        ("WITH a AS (SELECT * FROM x), b AS (SELECT * FROM a) SELECT * FROM b, y", {"x", "y"}),
        ("WITH events AS (SELECT * FROM events) SELECT * FROM events", {"events"}),
        ("WITH b AS (SELECT * FROM a), a AS (SELECT * FROM x) SELECT * FROM b JOIN a", {"a", "x"}),
        ("SELECT * FROM (WITH a AS (SELECT * FROM x) SELECT * FROM a) JOIN a", {"x", "a"}),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r JOIN e", {"e"}),
        ("SELECT * FROM events LATERAL VIEW explode(tags) t AS tag", {"events"}),
        ("SELECT * FROM events, LATERAL (SELECT events.a + b FROM others)", {"events", "others"}),
        ("SELECT * FROM range(10) JOIN events", {"events"}),
        ("SELECT * FROM VALUES (1), (2) AS v(a) JOIN events", {"events"}),
        ("SELECT a FROM x UNION ALL SELECT a FROM y EXCEPT SELECT a FROM z", {"x", "y", "z"}),
        ("(SELECT a FROM x) INTERSECT (SELECT a FROM y)", {"x", "y"}),
        ("SELECT (SELECT max(a) FROM x) FROM y", {"x", "y"}),
        ("FROM events SELECT a", {"events"}),
        ("SELECT * FROM Events e JOIN EVENTS f ON e.a = f.a", {"Events"}),
        ("SELECT window(t, '1 hour').start, count(*) FROM events GROUP BY window(t, '1 hour'), who", {"events"}),
        ("SELECT count(*) FROM events GROUP BY WINDOW (t, '1 hour', '20 minutes') HAVING count(*) > 1", {"events"}),
        ("SELECT max(n) OVER w FROM events WINDOW w AS (PARTITION BY who ORDER BY n)", {"events"}),
        ("SELECT * FROM t PIVOT (sum(x) FOR y IN ('a', 'b'))", {"t"}),
    ],
)
def test_reads(query, reads):
    assert set(inputs_of(query, table="t", origin=Origin("app.py", 1))) == reads
