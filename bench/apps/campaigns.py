"""The Yahoo streaming benchmark: views per campaign and ten seconds. `ads.parquet` lies in the folder that BENCH_ADS names."""

import os

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import headrace as hr

app = hr.App("campaigns")

app.topic(
    "events",
    schema="user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time TIMESTAMP, ip STRING",
    event_time="event_time",
)
app.reference("ads", os.environ.get("BENCH_ADS", "ads.parquet"))


@app.table(key=["campaign_id", "window"])
def views(events: DataFrame, ads: DataFrame) -> DataFrame:
    """Views per campaign and window of event time."""
    seen = events.where("event_type = 'view'").select("ad_id", "event_time").join(ads, "ad_id")
    return seen.groupBy("campaign_id", F.window("event_time", "10 seconds").alias("window")).agg(F.count("*").alias("n"))
