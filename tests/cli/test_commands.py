"""What the other commands answer, and how they end."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from decimal import Decimal

import pytest

from headrace.cli import main
from headrace.cli.output import plain
from headrace.cli.target import find, split
from headrace.errors import UsageError
from tests.cli.conftest import HEADRACE

# --- which app ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected", "found"),
    [
        (["app.py", "SELECT 1"], ["SQL"], ("app.py", ["SELECT 1"])),
        (["far/app.py:clicks", "SELECT 1"], ["SQL"], ("far/app.py:clicks", ["SELECT 1"])),
        (["SELECT 1"], ["SQL"], (None, ["SELECT 1"])),
        (["headrace.toml"], [], ("headrace.toml", [])),
        ([], [], (None, [])),
        (["here", "events", "file"], ["TOPIC", "FILE"], ("here", ["events", "file"])),
        (["here", "file"], ["TOPIC", "FILE"], (None, ["here", "file"])),
    ],
)
def test_the_first_argument_is_the_app_when_it_looks_like_one(tmp_path, monkeypatch, arguments, expected, found):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    assert split(arguments, expected) == found


def test_without_an_argument_headrace_toml_comes_before_app_py(tmp_path):
    with pytest.raises(UsageError, match="there is no app"):
        find(None, here=tmp_path)
    (tmp_path / "app.py").write_text("")
    assert find(None, here=tmp_path).key == "app.py"
    (tmp_path / "headrace.toml").write_text('app = "jobs.py:clicks"\n')
    (tmp_path / "jobs.py").write_text("")
    assert find(None, here=tmp_path).key == "jobs.py:clicks"
    assert find("app.py", here=tmp_path).key == "app.py"


def test_several_apps_of_a_file_must_be_named(cli, project):
    (project / "two.py").write_text("import headrace as hr\none = hr.App('first')\ntwo = hr.App('second')\n")
    answered = cli("topic", "create", "two.py")
    assert (answered.code, "two.py:one or two.py:two" in answered.err) == (2, True)
    assert cli("topic", "create", "two.py:two", "--json").json["app"] == "second"
    assert cli("status", "two.py:two", "--json").json["app"] == "second"


def test_an_app_that_never_ran_is_said_to_have_never_run(cli, project):
    for arguments in (["query", "SELECT 1"], ["stop"], ["topic", "list"], ["table", "list"]):
        answered = cli(*arguments)
        assert (answered.code, "never run here" in answered.err) == (2, True), arguments
    answered = cli("status", "--json")
    assert (answered.code, answered.json["state"]) == (1, "stopped")
    fields = ["state", "pid", "generation", "epoch", "committed_at", "sources", "tables", "sinks", "url", "token_file", "error"]
    assert set(fields) <= set(answered.json)
    answered = cli("query", "ghost.py", "SELECT 1")
    assert (answered.code, "there is no file" in answered.err) == (2, True), "what is not there was not just never run"


def test_an_error_in_the_apps_file_names_its_line(cli, project):
    (project / "app.py").write_text("import headrace as hr\n\napp = hr.App('a')\n1 / 0\n")
    answered = cli("topic", "create", "--json")
    assert answered.code == 2
    assert (answered.error["code"], answered.error["file"], answered.error["line"]) == ("definition", "app.py", 4)
    assert "ZeroDivisionError" in answered.error["message"]


def test_a_file_that_runs_its_app_while_it_is_imported_is_told_so(cli, project):
    (project / "app.py").write_text("import headrace as hr\napp = hr.App('a')\napp.run()\n")
    answered = cli("topic", "create")
    assert answered.code == 2
    assert "app.py:3" in answered.err
    assert "__main__" in answered.err


def test_modules_beside_the_app_can_be_imported(cli, project):
    (project / "names_of_ours.py").write_text("NAME = 'helped'\n")
    (project / "app.py").write_text("import headrace as hr\nimport names_of_ours\napp = hr.App(names_of_ours.NAME)\n")
    assert cli("topic", "create", "--json").json["app"] == "helped"


# --- how commands end --------------------------------------------------------------------------------------------------


def test_wrong_use_of_the_command_line_ends_with_2(cli, project):
    assert cli("nonsense").code == 2
    assert cli("query").code == 2
    answered = cli("send", "--nonsense", "--json")
    assert (answered.code, answered.error["code"]) == (2, "usage")


def test_what_is_due_later_says_so(cli, project):
    answered = cli("query", "--spark", "SELECT 1", "--json")
    assert (answered.code, answered.error["code"]) == (2, "not_available")


def test_a_bug_ends_with_70_and_debug_shows_where(cli, project, monkeypatch):
    (project / "headrace-data").mkdir()
    (project / "headrace-data" / "apps.json").mkdir()
    answered = cli("status")
    assert answered.code == 70
    assert "this is a bug in Headrace" in answered.err
    assert "Traceback" not in answered.err
    assert "Traceback" in cli("status", "--debug").err


def test_json_is_exact():
    assert plain([2**53, 2**53 + 1, -(2**60), Decimal("1E+3"), float("inf"), {"a": (1, None)}]) == [
        2**53,
        str(2**53 + 1),
        str(-(2**60)),
        "1000",
        "Infinity",
        {"a": [1, None]},
    ]


# --- new, version, doctor ----------------------------------------------------------------------------------------------


def test_new_overwrites_nothing(cli, tmp_path):
    assert cli("new", tmp_path / "a").code == 0
    assert cli("new", tmp_path / "a").code == 2
    assert cli("new", tmp_path / "b", "--template", "ghost").code == 2
    assert not (tmp_path / "b").exists()
    (tmp_path / "taken").touch()
    answered = cli("new", tmp_path / "taken")
    assert (answered.code, "is a file" in answered.err) == (2, True)


def test_version(cli):
    assert set(cli("version", "--json").json["versions"]) == {"headrace", "python", "pyspark", "pyarrow"}


def test_doctor_names_the_origin_of_each_setting(cli, project, monkeypatch):
    monkeypatch.setenv("HEADRACE_SPARK_MASTER", "local[1]")
    (project / "headrace.toml").write_text("[settings]\nmax_rows_per_epoch = 5\n")
    answered = cli("doctor", "--data", project / "d", "--json")
    assert answered.code == 0
    origins = {setting["name"]: setting["origin"] for setting in answered.json["settings"]}
    assert origins["spark_master"] == "HEADRACE_SPARK_MASTER"
    assert origins["max_rows_per_epoch"].endswith("headrace.toml")
    assert (origins["data"], origins["debug"]) == ("option", "default")
    assert {check["name"] for check in answered.json["checks"]} >= {"python", "java", "spark", "clock", "data"}


def test_doctor_finds_a_broken_store(cli, ran):
    assert cli("doctor").code == 0
    store = ran / "headrace-data" / "phone_actions" / "store.db"
    for beside in ("-wal", "-shm"):
        store.with_name(store.name + beside).unlink(missing_ok=True)
    store.write_bytes(store.read_bytes()[:5000] + b"\xff" * 9000)
    answered = cli("doctor", "--json")
    assert answered.code == 3
    assert {"store": "wrong"}.items() <= {check["name"]: check["state"] for check in answered.json["checks"]}.items()


# --- topics ------------------------------------------------------------------------------------------------------------


def test_topics_are_made_listed_shown_and_deleted(cli, project):
    assert cli("topic", "create").out.startswith("events: 4 partitions, phone_id STRING NOT NULL")
    assert cli("topic", "create", "visits", "--schema", "page STRING", "--partitions", 2, "--partition-by", "page").code == 0
    cli("send", "events", "events.jsonl")
    listed = cli("topic", "list", "--json").json["topics"]
    assert [(topic["name"], topic["rows"], topic["partitions"]) for topic in listed] == [("events", 8, 4), ("visits", 0, 2)]
    shown = cli("topic", "show", "events", "--json").json
    assert (shown["event_time"], shown["partition_by"], sum(p["end"] for p in shown["partitions"])) == ("time", ["phone_id"], 8)
    assert cli("topic", "delete", "visits", "--json").code == 2, "nobody was asked"
    assert cli("topic", "delete", "visits", "--yes").code == 0
    assert cli("topic", "show", "visits").code == 2


def test_tail_shows_the_newest_rows_and_unusable_ones(cli, ran):
    lines = [json.loads(line) for line in cli("topic", "tail", "events", "--lines", "1").out.splitlines()]
    assert all(line["_offset"] >= 0 for line in lines)
    assert [line["_reason"] for line in lines if "_reason" in line] == ["type"]


# --- reading -----------------------------------------------------------------------------------------------------------


def test_query_answers_from_one_epoch(cli, ran):
    (ran / "app.py").unlink()
    answered = cli("query", "SELECT action, sum(n) AS n FROM actions_per_hour GROUP BY action ORDER BY action")
    assert answered.out.split() == ["action", "n", "close", "3", "install", "1", "open", "4"]
    found = cli("query", "app.py", "SELECT hour_start, n FROM actions_per_hour WHERE action = 'install'", "--json").json
    assert found["rows"] == [["2026-01-01T09:00:00Z", 1]]
    assert [column["name"] for column in found["columns"]] == ["hour_start", "n"]
    assert (found["app"], found["epoch"] >= 1, found["committed_at"].endswith("Z")) == ("phone_actions", True, True)


def test_query_as_of_the_first_epoch_sees_no_rows(cli, ran):
    assert cli("query", "--as-of", "1", "SELECT count(*) FROM actions_per_hour", "--json").json["rows"] == [[0]]
    assert cli("query", "--as-of", "99", "SELECT 1").code == 2
    assert cli("query", "--as-of", "soon", "SELECT 1").code == 2


def test_wrong_sql_ends_with_2(cli, ran):
    answered = cli("query", "SELECT * FROM actions_per_hou", "--json")
    assert (answered.code, answered.error["code"]) == (2, "usage")
    assert cli("query", "DELETE FROM actions_per_hour").code == 2


def test_tables_are_listed_shown_and_told(cli, ran):
    listed = cli("table", "list", "--json").json["tables"]
    assert {(table["name"], table["rows"], table["state"]) for table in listed} == {
        ("actions_per_hour", 5, "live"),
        ("opens_and_closes", 3, "live"),
    }
    shown = cli("table", "show", "opens_and_closes", "--where", "phone_id = 'a'", "--json").json
    assert shown["rows"] == [["a", 2, 2]]
    versions = cli("table", "history", "opens_and_closes", "a", "--json").json["versions"]
    assert [(version["to"], version["row"]["opens"]) for version in versions] == [(None, 2)]
    changes = cli("table", "history", "opens_and_closes", "--json").json["changes"]
    assert sorted(change["key"][0] for change in changes) == ["a", "b", "c"]
    rejects = cli("table", "rejects", "--json").json["rejects"]
    assert [(reject["source"], reject["reason"]) for reject in rejects] == [("events", "type")]
    assert cli("table", "rejects", "--reason", "range", "--json").json["rejects"] == []


def test_only_a_table_that_the_app_no_longer_defines_is_dropped(cli, ran):
    answered = cli("table", "drop", "opens_and_closes", "--yes")
    assert (answered.code, "is defined by the app" in answered.err) == (2, True)
    assert cli("table", "drop", "ghosts", "--yes").code == 2


def test_before_the_first_run_there_are_no_tables(cli, project):
    cli("topic", "create")
    answered = cli("query", "SELECT 1")
    assert (answered.code, "no tables yet" in answered.err) == (2, True)


# --- status and stop ---------------------------------------------------------------------------------------------------


def test_status_of_a_stopped_app_is_1_and_says_how_far_it_is(cli, ran):
    answered = cli("status", "--json")
    assert (answered.code, answered.json["state"]) == (1, "stopped")
    assert sum(source["end"] for source in answered.json["sources"]) == 9
    assert all(source["end"] == source["used"] for source in answered.json["sources"])
    assert {"pid", "generation", "committed_at", "tables", "sinks", "url", "token_file", "error"} <= set(answered.json)


def test_stop_of_a_stopped_app_is_0(cli, ran):
    assert cli("stop", "--json").json["stopped"] is False


def test_a_process_that_died_is_a_failure_and_its_pid_is_nobodys(cli, ran):
    run = ran / "headrace-data" / "phone_actions" / "run"
    run.mkdir(exist_ok=True)
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    from headrace.store.process import this_host

    said = {"pid": gone.pid, "host": this_host(), "process_started": "1", "generation": 1, "heartbeat": 0}
    (run / "runner.json").write_text(json.dumps(said))
    assert cli("status", "--json").json["state"] == "failed"
    assert cli("stop").code == 0


def start(project):
    started = subprocess.Popen(
        [*HEADRACE, "run", "--spark-master", "local[1]"], cwd=project, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in started.stderr:
        if " running" in line:
            return started
    raise AssertionError(f"it ended with {started.wait()}")


@pytest.mark.parametrize(
    ("end", "code"), [("stop", 0), ("interrupt", 130), pytest.param("terminate", 143, marks=pytest.mark.slow)]
)
def test_a_run_ends_cleanly_however_it_is_asked_to(cli, ran, end, code):
    started = start(ran)
    try:
        assert cli("status", "--json").json["state"] == "running"
        assert cli("topic", "delete", "events", "--yes").code == 3
        if end == "stop":
            assert cli("stop", "--json").json["stopped"] is True
        else:
            os.kill(started.pid, signal.SIGINT if end == "interrupt" else signal.SIGTERM)
        started.stderr.read()
        assert started.wait() == code
    finally:
        started.kill()
        started.wait()
        started.stderr.close()
    assert cli("status", "--json").json["state"] == "stopped"


def test_main_ends_the_process_with_the_code(capsys):
    with pytest.raises(SystemExit) as ended:
        main.main(["status", "nowhere.py"])
    assert ended.value.code == 1


# --- the same answer twice ---------------------------------------------------------------------------------------------


def test_batch_gives_the_same_rows_and_verify_proves_it(ran):
    def headrace(*arguments):
        return subprocess.run([*HEADRACE, *arguments, "--json"], cwd=ran, capture_output=True, text=True, check=False)

    ended = headrace("batch")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert {(table["name"], table["rows"]) for table in report["tables"]} == {("actions_per_hour", 5), ("opens_and_closes", 3)}
    assert report["path"].endswith("headrace-data/phone_actions/batch.db")
    proved = headrace("verify")
    assert proved.returncode == 0, proved.stderr
    found = json.loads(proved.stdout)
    assert found["ok"] is True
    assert {(table["name"], table["different"]) for table in found["tables"]} == {
        ("actions_per_hour", 0),
        ("opens_and_closes", 0),
    }
    with sqlite3.connect(ran / "headrace-data" / "phone_actions" / "store.db") as db:
        db.execute("UPDATE opens_and_closes SET opens = 7 WHERE phone_id = 'a'")
    db.close()
    wrong = headrace("verify")
    assert wrong.returncode == 1, wrong.stderr
    assert json.loads(wrong.stdout)["ok"] is False
