"""A web server's log, line by line: who asks, how often it goes wrong, and what is slow.

The topic holds the lines as they are. The first table takes them apart; a line that is no request stays out of it, and is
counted by another one. Everything else reads the first table.
"""

from pyspark.sql import functions as F

import headrace as hr

app = hr.App("weblog")

lines = app.topic("lines", schema="value STRING")

LINE = r"^(\S+) (\S+) (\d{3}) ([A-Z]+) (\S+) (\d+\.\d+)$"


@app.table
def requests(lines):
    """One row per request: `2016-12-06T08:58:35.318+0000 37.139.9.11 404 GET /codemove/TTCENCUFMH3C 0.026`."""
    part = [F.regexp_extract("value", LINE, number) for number in range(1, 7)]
    return lines.where(F.col("value").rlike(LINE)).select(
        F.try_to_timestamp(part[0], F.lit("yyyy-MM-dd'T'HH:mm:ss.SSSZ")).alias("time"),
        part[1].alias("address"),
        part[2].cast("int").alias("status"),
        part[3].alias("method"),
        part[4].alias("url"),
        part[5].cast("decimal(9,3)").alias("seconds"),
    )


@app.table(key=["address"])
def addresses(requests):
    """Requests per address, and the share of them that went wrong."""
    errors = F.count_if(F.col("status") >= 400)
    return requests.groupBy("address").agg(
        F.count("*").alias("requests"),
        errors.alias("errors"),
        (errors * 100 / F.count("*")).cast("decimal(5,2)").alias("percent"),
    )


app.sql(
    "slowest_urls",
    key=["url"],
    query="SELECT url, max(seconds) AS slowest, avg(seconds) AS usual, count(*) AS requests FROM requests GROUP BY url",
)

app.sql(
    "top_ten",
    key=["address"],
    query="SELECT address, requests, errors FROM addresses ORDER BY requests DESC, address LIMIT 10",
)

app.sql(
    "unreadable",
    query=f"SELECT count(*) AS lines FROM lines WHERE NOT coalesce(value RLIKE r'{LINE}', false)",
)

if __name__ == "__main__":
    app.run()
