"""Searches and what was clicked: a left join that shows a search at once, and its click when that comes.

Nothing is late: the click may arrive before the search, or days after it.
"""

from pyspark.sql import functions as F

import headrace as hr

app = hr.App("search_clicks")

searches = app.topic(
    "searches", schema="query_id BIGINT NOT NULL, words STRING, time TIMESTAMP NOT NULL", partitions=2, partition_by="query_id"
)
clicks = app.topic(
    "clicks",
    schema="query_id BIGINT NOT NULL, url STRING NOT NULL, time TIMESTAMP NOT NULL",
    partitions=2,
    partition_by="query_id",
)


@app.table(key=["query_id", "url"])
def clicked(searches, clicks):
    """Each search with each of its clicks; a search without a click has an empty url."""
    found = clicks.select("query_id", "url", F.col("time").alias("clicked_at"))
    return searches.join(found, "query_id", "left").select(
        "query_id", "words", F.col("time").alias("searched_at"), "url", "clicked_at"
    )


@app.table(key=["words"])
def success(clicked):
    """Of the searches for these words, how many led to a click?"""
    by_search = clicked.groupBy("words", "query_id").agg(F.count("url").alias("clicks"))
    return by_search.groupBy("words").agg(F.count("*").alias("searches"), F.count_if(F.col("clicks") > 0).alias("with_click"))


if __name__ == "__main__":
    app.run()
