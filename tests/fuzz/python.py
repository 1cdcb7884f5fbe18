"""Functions in Python that random tables use: by row, by column, by group.

Annotations are real objects here: Spark reads them.
"""

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql import types as T


@F.udf(T.StringType())
def shout(k: str | None) -> str | None:
    """Row by row."""
    return None if k is None else k.upper() + "!"


@F.pandas_udf(T.DoubleType())
def half(values: pd.Series) -> pd.Series:
    """Column by column."""
    return values / 2.0


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per group."""
    return pd.DataFrame({"k": rows["k"].iloc[:1].tolist(), "n": [len(rows)], "first": [rows["id"].min()]})


def both(a: pd.DataFrame, c: pd.DataFrame) -> pd.DataFrame:
    """One row per group of two inputs."""
    k = (a if len(a) else c)["k"].iloc[0]
    return pd.DataFrame({"k": [k], "a": [len(a)], "c": [len(c)]})
