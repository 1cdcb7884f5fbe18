"""The rows that benchmarks send, made from a seed, and what the tables over them have to hold."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EVENT_COLUMNS = "id BIGINT, ad_id INT, user_id INT, event_type STRING, value INT"
CAMPAIGN_COLUMNS = (
    "user_id STRING, page_id STRING, ad_id STRING, ad_type STRING, event_type STRING, event_time TIMESTAMP, ip STRING"
)

KEYS = {
    "by_ad": "ad_id",
    "by_campaign": "ad_id div 10",
    "by_user": "user_id % 5000",
    "by_type": "concat(event_type, '-', cast(ad_id % 50 AS STRING))",
    "by_ad7": "ad_id % 7",
}
"""Five tables: count and sum of value per key."""

KINDS = np.array(["view", "click", "purchase"])


def events(rows: int, seed: int = 7) -> pa.Table:
    """Rows with a thousand ads and a hundred thousand users."""
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows, dtype=np.int64),
            "ad_id": random.integers(0, 1000, rows, dtype=np.int32),
            "user_id": random.integers(0, 100_000, rows, dtype=np.int32),
            "event_type": KINDS[random.integers(0, 3, rows)],
            "value": random.integers(1, 100, rows, dtype=np.int32),
        }
    )


def key_values(rows: pa.Table, table: str) -> np.ndarray:
    """The key of each row in one of the five tables."""
    ad, user = rows["ad_id"].to_numpy(), rows["user_id"].to_numpy()
    if table == "by_type":
        return np.char.add(np.char.add(rows["event_type"].to_numpy(zero_copy_only=False).astype(str), "-"), (ad % 50).astype(str))
    return {"by_ad": ad, "by_campaign": ad // 10, "by_user": user % 5000, "by_ad7": ad % 7}[table]


def expected(rows: pa.Table, table: str) -> list[tuple[object, int, int]]:
    """What a table has to hold, by key."""
    keyed = pa.table({"k": key_values(rows, table), "value": rows["value"].cast(pa.int64())})
    found = keyed.group_by("k").aggregate([("value", "count"), ("value", "sum")])
    return sorted(zip(*(found.column(name).to_pylist() for name in ("k", "value_count", "value_sum")), strict=True))


class Campaigns:
    """The Yahoo streaming benchmark: ten thousand events per second of event time, up to two seconds out of order."""

    start_ms = 1_700_000_000_000

    def __init__(self, seed: int = 42) -> None:
        self._random = np.random.default_rng(seed)
        self.users, self.pages, self.ads, self.campaigns = (self._ids(n) for n in (100, 100, 1000, 100))
        self.types = pa.array(["banner", "modal", "sponsored-search", "mail", "mobile"])
        self.ips = pa.array([f"10.0.{i // 256}.{i % 256}" for i in range(1000)])

    def _ids(self, count: int) -> pa.Array[Any]:
        return pa.array([str(uuid.UUID(bytes=self._random.bytes(16))) for _ in range(count)])

    def _pick(self, values: pa.Array[Any], rows: int) -> pa.Array[Any]:
        return values.take(self._random.integers(0, len(values), rows))

    def write_ads(self, file: Path) -> None:
        """Which campaign an ad belongs to."""
        campaigns = self.campaigns.take(np.arange(1000) // 10)
        pq.write_table(pa.table({"ad_id": self.ads, "campaign_id": campaigns}), file)

    def rows(self, first: int, rows: int) -> pa.Table:
        """Rows from number `first` on."""
        ms = self.start_ms + np.arange(first, first + rows) // 10 + self._random.integers(0, 2000, rows)
        return pa.table(
            {
                "user_id": self._pick(self.users, rows),
                "page_id": self._pick(self.pages, rows),
                "ad_id": self._pick(self.ads, rows),
                "ad_type": self._pick(self.types, rows),
                "event_type": self._pick(pa.array(KINDS), rows),
                "event_time": pa.array(ms * 1000).cast(pa.timestamp("us", tz="UTC")),
                "ip": self._pick(self.ips, rows),
            }
        )


def views_in(rows: pa.Table) -> int:
    """How many of them are views."""
    return sum(kind == "view" for kind in rows["event_type"].to_pylist())
