"""The classic of map and reduce: how often does each word occur? The same function is the batch job and the live table."""

from pyspark.sql import functions as F

import headrace as hr

app = hr.App("word_count")

lines = app.topic("lines", schema="value STRING")


@app.table(key=["word"])
def words(lines):
    """Map each line to its words, then reduce each word to a number."""
    mapped = lines.select(F.explode(F.split("value", " ")).alias("word")).where("word != ''")
    return mapped.groupBy("word").agg(F.count("*").alias("n"))


@app.table(key=["letters"])
def lengths(words):
    """A table over the table: how many different words have so many letters?"""
    return words.groupBy(F.length("word").alias("letters")).agg(F.count("*").alias("words"), F.sum("n").alias("uses"))


if __name__ == "__main__":
    app.run()
