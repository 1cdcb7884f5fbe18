"""Five keyed tables over one topic: the app whose freshness is measured."""

import headrace as hr

app = hr.App("five")

app.topic("events", schema="id BIGINT, ad_id INT, user_id INT, event_type STRING, value INT")

KEYS = {
    "by_ad": "ad_id",
    "by_campaign": "ad_id div 10",
    "by_user": "user_id % 5000",
    "by_type": "concat(event_type, '-', cast(ad_id % 50 AS STRING))",
    "by_ad7": "ad_id % 7",
}

for name, key in KEYS.items():
    app.sql(name, key=["k"], query=f"SELECT {key} AS k, count(*) AS n, sum(value) AS s FROM events GROUP BY {key}")
