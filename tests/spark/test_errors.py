"""What Spark says, in the user's words."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkAttributeError

from headrace.definitions import TableDef
from headrace.errors import DefinitionError
from headrace.origin import Origin
from headrace.spark.errors import spark_errors


def opens(events):
    """Names something that no frame has, as Spark says it."""
    if events is None:
        return events
    raise PySparkAttributeError(errorClass="ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "whom"})


def test_a_name_that_a_frame_does_not_have_is_the_apps_error_at_its_line():
    first = opens.__code__.co_firstlineno
    table = TableDef("opens", None, (("events", "events"),), opens, None, "stop", "warn", None, Origin("app.py", first))
    with pytest.raises(DefinitionError) as caught, spark_errors(table):
        opens(())
    assert caught.value.render() == (
        'table "opens" is not understood by Spark\n'
        f"  app.py:{first + 4}  there is no column or method whom\n"
        "  try: a column that the input has, or a method of Spark's"
    )
