"""What a function may not do while it is asked for its plan."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import functions as F

import headrace as hr
from headrace.errors import NotKeptUp
from headrace.testing import run_epochs


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda events: events.withColumn("total", F.lit(events.count())), "runs count() inside its function"),
        (lambda events: events if events.isEmpty() else events.where("n > 1"), "runs isEmpty() inside its function"),
        (lambda events: events.limit(len(events.collect())), "runs collect() inside its function"),
        (lambda events: events.groupBy("who").pivot("n").count(), "runs pivot() without values"),
        (lambda events: events.withColumn("luck", F.lit(random.random())), "gave two plans"),
    ],
)
def test_a_function_that_looks_at_its_rows_or_the_world_is_refused(function, says):
    app = hr.App("a")
    app.topic("events", schema="who STRING, n INT")
    app.table(function, name="t", key="who")
    with pytest.raises(NotKeptUp) as caught:
        run_epochs(app, [[{"who": "a", "n": 1}]])
    assert says in str(caught.value)
    assert "test_actions.py" in str(caught.value)
    assert "try: " in str(caught.value)


def test_pivot_with_values_is_kept_up():
    app = hr.App("a")
    app.topic("events", schema="who STRING, n INT")
    app.table(lambda events: events.groupBy("who").pivot("n", [1, 2]).count(), name="t", key="who")
    with run_epochs(app, [[{"who": "a", "n": 1}], [{"who": "a", "n": 2}, {"who": "a", "n": 2}]]) as out:
        assert out.table("t") == [{"who": "a", "1": 1, "2": 2}]
        out.verify()
