"""Visits of pages, per day: how many, and by how many different visitors."""

from pyspark.sql import functions as F

import headrace as hr

app = hr.App("page_visits")

visits = app.topic(
    "visits", schema="page STRING NOT NULL, visitor STRING, time TIMESTAMP NOT NULL", partitions=2, partition_by="page"
)


@app.table(key=["page", "day"])
def visits_per_day(visits):
    """How often each page was visited, day by day."""
    return visits.groupBy("page", F.to_date("time").alias("day")).agg(F.count("*").alias("visits"))


@app.table(key=["page", "day"])
def visitors_per_day(visits):
    """How many different people that were. Nobody is counted twice, however often rows arrive."""
    return visits.groupBy("page", F.to_date("time").alias("day")).agg(F.count_distinct("visitor").alias("visitors"))


if __name__ == "__main__":
    app.run()
