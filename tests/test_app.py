"""What an app is made of, and what it refuses where it is typed."""

from __future__ import annotations

import functools

import pytest

import headrace as hr
from headrace.errors import DefinitionError, NotAvailable, RowsRefused, UsageError

EVENTS = "phone_id STRING NOT NULL, time TIMESTAMP, action STRING"


def app_with_events() -> hr.App:
    app = hr.App("phones")
    app.topic("events", schema=EVENTS)
    return app


def test_parameters_say_what_a_table_reads():
    app = app_with_events()
    app.reference("people", "people.csv")

    @app.table(key=["phone_id"])
    def owners(events, people, limit=10):
        return events

    made = app.definition().tables["owners"]
    assert made.inputs == (("events", "events"), ("people", "people"))
    assert made.key == ("phone_id",)
    assert made.origin.file.endswith("test_app.py")


def test_a_bare_decorator_leaves_the_key_to_the_plan():
    app = app_with_events()

    @app.table
    def copies(events):
        """What came in."""
        return events

    assert app.definition().tables["copies"].key is None
    assert copies.__doc__ == "What came in."
    assert copies("rows") == "rows"


def test_a_function_from_a_batch_job_is_taken_as_it_is():
    app = app_with_events()

    def per_phone(e, scale=1, *, people):
        return (e, scale, people)

    app.reference("persons", "persons.parquet")
    events = app.topic("clicks", schema=EVENTS)
    table = app.table(per_phone, key="phone_id", inputs={"e": events, "people": "persons"})
    made = app.definition().tables["per_phone"]
    assert made.inputs == (("e", "clicks"), ("people", "persons"))
    assert made.call({"e": 1, "people": 2}) == (1, 1, 2)
    assert table(1, people=3) == (1, 1, 3)


def test_positional_only_parameters_and_partials_can_be_called():
    app = app_with_events()

    def joined(events, /, people):
        return (events, people)

    app.reference("people", "people.json")
    app.table(joined)
    app.table(functools.partial(joined, people="nobody"), name="alone")
    tables = app.definition().tables
    assert tables["joined"].call({"people": 2, "events": 1}) == (1, 2)
    assert tables["alone"].inputs == (("events", "events"),)
    assert tables["alone"].call({"events": 1}) == (1, "nobody")


def test_sql_reads_what_from_names_whatever_the_letter_case():
    app = app_with_events()
    app.sql("opens", 'WITH o AS (SELECT * FROM Events WHERE action = "from x") SELECT * FROM o', key="phone_id")
    made = app.definition().tables["opens"]
    assert made.inputs == (("Events", "events"),)
    assert made.reads == ("events",)


def test_tables_come_after_what_they_read():
    app = app_with_events()
    app.sql("top", "SELECT * FROM counts LIMIT 3")
    app.sql("counts", "SELECT action, count(*) AS n FROM events GROUP BY action")
    definition = app.definition()
    assert [table.name for table in definition.in_order()] == ["counts", "top"]
    assert [[table.name for table in level] for level in definition.levels()] == [["counts"], ["top"]]


def test_defining_runs_nothing():
    app = app_with_events()

    @app.table
    def broken(events):
        raise AssertionError("called while it was defined")

    assert "broken" in app.definition().tables


@pytest.mark.parametrize(
    ("define", "says"),
    [
        (lambda app: app.table(lambda *rows: rows, name="t"), "*rows names no input"),
        (lambda app: app.table(lambda **rows: rows, name="t"), "**rows names no input"),
        (lambda app: app.table(lambda: 1, name="t"), "reads nothing"),
        (lambda app: app.table(lambda events: 1, name="t", inputs={"evnts": "events"}), 'no parameter "evnts"'),
        (lambda app: app.table(lambda events: 1), 'cannot be called "<lambda>"'),
        (lambda app: app.table(lambda events: 1, name="a__b"), "two underscores"),
        (lambda app: app.table(lambda events: 1, name="t", key=["a", "A"]), "twice in its key"),
        (lambda app: app.table(lambda events: 1, name="t", key=["_offset"]), "keeps that name"),
        (lambda app: app.table(lambda events: 1, name="t", key=[1]), "names of columns"),
        (lambda app: app.table(lambda events: 1, name="t", key=1), "names of columns"),
        (lambda app: app.table(lambda events: 1, name="t", on_error="ignore"), "on_error cannot be 'ignore'"),
        (lambda app: app.table(lambda events: 1, name="t", on_tie="ignore"), "on_tie cannot be 'ignore'"),
        (lambda app: app.table(lambda events: 1, name="t", history="a while"), "'a while' is not a duration"),
        (lambda app: app.table(lambda events: 1, name="t", kee="x"), "no option kee="),
        (lambda app: app.table("SELECT 1"), "takes a function"),
        (lambda app: app.sql("t", "SELECT 1; SELECT 2"), "one SQL statement"),
        (lambda app: app.sql("t", None), "its SQL is None"),
        (lambda app: app.sql("t", "DROP TABLE events"), "needs a SELECT"),
        (lambda app: app.sql("t", "SELECT FROM WHERE ("), "cannot read its SQL"),
        (lambda app: app.sql("t", "SELECT * FROM db.events"), "no name of this app"),
        (lambda app: app.topic("EVENTS", schema="a INT"), "has a name that is taken"),
        (lambda app: app.topic("1st", schema="a INT"), "starts with a letter"),
        (lambda app: app.topic("t", schema="a NUMBER"), 'topic "t"'),
        (lambda app: app.topic("t", schema="a INT", partition_by="b"), 'partition_by names "b"'),
        (lambda app: app.topic("t", schema="a INT", partition_by=1), 'partition_by names "1"'),
        (lambda app: app.topic("t", schema="a INT", event_time="a"), "is INT"),
        (lambda app: app.topic("t", schema="a INT", partitions=0), "partitions cannot be 0"),
        (lambda app: app.topic("t", schema="a INT", lateness="2 hours"), "no event_time"),
        (lambda app: app.topic("t", schema="at TIMESTAMP", event_time="at", lateness="2 fortnights"), "2 fortnights"),
        (lambda app: app.topic("t", schema="_offset INT"), "_offset"),
        (lambda app: app.reference("r", "people.xlsx"), "cannot tell the format"),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_typed(define, says):
    app = app_with_events()
    before = app.definition()
    with pytest.raises(DefinitionError) as caught:
        define(app)
    assert says in str(caught.value)
    assert caught.value.origin is None or caught.value.origin.file.endswith("test_app.py")
    assert app.definition() == before, "a definition that was refused leaves nothing behind"


def test_a_second_definition_of_a_name_names_the_first():
    app = app_with_events()
    app.sql("opens", "SELECT * FROM events")
    with pytest.raises(DefinitionError) as caught:
        app.sql("opens", "SELECT * FROM events")
    assert "test_app.py:" in caught.value.details[0]


def test_a_cell_run_again_replaces_its_definition():
    scope = {"hr": hr, "EVENTS": EVENTS}
    first = "app = hr.App('nb')\napp.topic('events', schema=EVENTS)\napp.sql('opens', 'SELECT 1 AS a FROM events')"
    exec(compile(first, "<ipython-input-1>", "exec"), scope)
    exec(compile("app.sql('opens', 'SELECT 2 AS a FROM events')", "<ipython-input-2>", "exec"), scope)
    definition = scope["app"].definition()
    assert definition.tables["opens"].query == "SELECT 2 AS a FROM events"
    assert definition.file is None


def test_an_unknown_source_is_named_with_the_nearest_one():
    app = app_with_events()

    @app.table
    def opens(event):
        return event

    with pytest.raises(DefinitionError) as caught:
        app.definition()
    assert 'table "opens" reads "event", which is not defined' in str(caught.value)
    assert 'try: "events"' in str(caught.value)


def test_a_circle_of_tables_is_shown():
    app = app_with_events()
    app.sql("a", "SELECT * FROM b")
    app.sql("b", "SELECT * FROM c JOIN events")
    app.sql("c", "SELECT * FROM a")
    with pytest.raises(DefinitionError, match=r"a -> b -> c -> a"):
        app.definition()


def test_reject_over_a_table_is_refused():
    app = app_with_events()
    app.sql("a", "SELECT * FROM events")
    app.sql("b", "SELECT * FROM a", on_error="reject")
    with pytest.raises(DefinitionError, match="cannot reject rows"):
        app.definition()


@pytest.mark.parametrize(
    "use",
    [
        lambda app: app.files("orders", "incoming/*.json"),
        lambda app: app.keyed("smooth", by=["sensor"]),
        lambda app: app.sink("to_mysql", table="t"),
        lambda app: app.stream("lines").map(str),
        lambda app: app.topic("t", schema="a INT").lookup("people"),
        lambda app: app.table(lambda events: 1, name="t", final=True),
        lambda app: app.table(lambda events: 1, name="t", every="10 seconds"),
        lambda app: app.sql("t", "SELECT * FROM events", kept_in="files"),
        lambda app: app.sql(
            "t", "SELECT * FROM events MATCH_RECOGNIZE (PARTITION BY a ORDER BY b MEASURES A.x AS y PATTERN (A) DEFINE A AS 1=1)"
        ),
        lambda app: app.reference("r", "r.csv", refresh="10 minutes"),
        lambda app: app.reference("r", "mysql://host/db"),
        lambda app: hr.MySQL("mysql://host"),
        lambda app: hr.Panes(),
        lambda app: hr.App("a", store="postgresql://host/db").place(),
    ],
)
def test_what_is_due_later_says_so(use):
    with pytest.raises(NotAvailable, match="not available in this version"):
        use(app_with_events())


def test_names_that_were_never_promised_are_ordinary_errors():
    with pytest.raises(AttributeError):
        app_with_events().nonsense()
    with pytest.raises(AttributeError):
        hr.nonsense()


@pytest.mark.parametrize("name", ["", "a b", "../up", "1st", "a.b"])
def test_an_apps_name_is_a_folders_name(name):
    with pytest.raises(DefinitionError, match="an app cannot be called"):
        hr.App(name)


def test_an_unknown_time_zone_is_refused():
    with pytest.raises(DefinitionError, match='no time zone "Europe/Bärlin"'):
        hr.App("a", timezone="Europe/Bärlin")


def test_rows_are_appended_durably_and_only_whole(tmp_path):
    app = hr.App("phones", data=tmp_path)
    events = app.topic("events", schema=EVENTS, partitions=2, partition_by="phone_id")
    position = events.append([{"phone_id": "a", "action": "open"}, {"phone_id": "b"}])
    assert position.token.startswith("p.")
    with pytest.raises(RowsRefused, match="row 1"):
        events.append([{"phone_id": "c"}, {"action": "open"}])
    again = events.append([{"phone_id": "d"}], producer="loader", sequence=7)
    assert events.append([{"phone_id": "d"}], producer="loader", sequence=7) == again
    from headrace.log.topic import Topic

    assert sum(Topic.open(tmp_path / "phones" / "log" / "events").ends()) == 3


def test_a_sequence_needs_a_producer(tmp_path):
    events = hr.App("phones", data=tmp_path).topic("events", schema=EVENTS)
    with pytest.raises(UsageError, match="belong together"):
        events.append([{"phone_id": "a"}], sequence=1)


def test_a_topic_on_disk_gets_new_columns_and_keeps_its_partitions(tmp_path):
    hr.App("phones", data=tmp_path).topic("events", schema="a INT", partitions=2).append([{"a": 1}])
    wider = hr.App("phones", data=tmp_path).topic("events", schema="a INT, b STRING", partitions=2)
    wider.append([{"a": 1, "b": "x"}])
    other = hr.App("phones", data=tmp_path).topic("events", schema="a INT, b STRING", partitions=3)
    with pytest.raises(DefinitionError, match="partitions of a topic cannot change"):
        other.append([{"a": 1}])
    narrower = hr.App("phones", data=tmp_path).topic("events", schema="b STRING", partitions=2)
    with pytest.raises(DefinitionError):
        narrower.append([{"b": "x"}])
