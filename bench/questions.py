"""All benchmarks, in the order in which they are published."""

from __future__ import annotations

from bench import blip, catchup, freshness, idle, ingest, start
from bench.bench import Bench

BENCHES: tuple[Bench, ...] = (freshness.FIVE, freshness.ONE, ingest.BENCH, catchup.BENCH, start.BENCH, blip.BENCH, idle.BENCH)
