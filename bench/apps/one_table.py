"""One keyed table over one topic."""

import headrace as hr

app = hr.App("one")

app.topic("events", schema="id BIGINT, ad_id INT, user_id INT, event_type STRING, value INT")
app.sql("by_ad", key=["k"], query="SELECT ad_id AS k, count(*) AS n, sum(value) AS s FROM events GROUP BY ad_id")
