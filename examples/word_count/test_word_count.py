"""Live, step by step, and as a batch job over the same rows."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from pyspark.sql import SparkSession

from headrace.store.reader import Reader

# What is appended at each step, and the whole table after it.
STEPS = [
    (["cat dog", "dog dog"], {"cat": 1, "dog": 3}),
    (["owl cat"], {"cat": 2, "dog": 3, "owl": 1}),
    (["dog", "owl"], {"cat": 2, "dog": 4, "owl": 2}),
]


def counted(rows: list[dict[str, object]]) -> dict[object, object]:
    return {row["word"]: row["n"] for row in rows}


def test_live_after_each_step_and_as_of_each_step(example: ModuleType) -> None:
    app, epochs = example.app, []
    with app.start() as run:
        for lines, expected in STEPS:
            epochs.append(run.wait(example.lines.append([{"value": line} for line in lines]), timeout=60))
            assert counted(app.read("words").to_dicts()) == expected
    for epoch, (_, expected) in zip(epochs, STEPS, strict=True):
        assert counted(app.read("words", as_of=epoch).to_dicts()) == expected
    assert app.read("lengths").to_dicts() == [{"letters": 3, "words": 3, "uses": 8}]
    assert app.verify().ok


def test_the_batch_job_gives_the_same(example: ModuleType, project: Path) -> None:
    app = example.app
    example.lines.append([{"value": line} for line in (project / "lines.txt").read_text().splitlines()])
    app.batch()
    with Reader(app.place().batch_db) as reader:
        assert counted(reader.table("words").to_dicts()) == STEPS[-1][1]
    app.run(once=True)
    assert counted(app.read("words").to_dicts()) == STEPS[-1][1]


def test_the_function_is_a_plain_function(example: ModuleType) -> None:
    spark = SparkSession.builder.getOrCreate()
    frame = spark.createDataFrame([("cat dog",), ("dog dog",)], "value STRING")
    assert counted([row.asDict() for row in example.words(frame).collect()]) == STEPS[0][1]
