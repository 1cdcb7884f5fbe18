"""Lanes are tested over the session that all tests share."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def shared_spark(spark: SparkSession) -> SparkSession:
    """Trials borrow the session that is there."""
    return spark
