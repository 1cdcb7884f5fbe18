"""headrace send"""

from __future__ import annotations

import io
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.log.topic import Topic
from tests.cli.conftest import HEADRACE

GOOD = '{"phone_id": "a", "time": "2026-01-01T10:00:00Z", "action": "open"}\n'


def rows_of(project):
    topic = Topic.open(project / "headrace-data" / "phone_actions" / "log" / "events")
    return pa.concat_tables([topic.read(n, 0, end) for n, end in enumerate(topic.ends())])


def test_send_makes_the_topic_from_the_app(cli, project):
    answered = cli("send", "events", "events.jsonl", "--json")
    assert answered.code == 0
    assert {name: answered.json[name] for name in ("headrace", "app", "topic", "rows", "rejects")} == {
        "headrace": 1,
        "app": "phone_actions",
        "topic": "events",
        "rows": 8,
        "rejects": 0,
    }
    assert answered.json["position"].startswith("p.")
    assert rows_of(project).num_rows == 8


def test_once_the_topic_exists_the_apps_code_is_not_imported(cli, project):
    assert cli("send", "events", "events.jsonl").code == 0
    (project / "app.py").write_text("raise SystemExit('imported')")
    assert cli("send", "EVENTS", "events.jsonl").code == 0
    assert rows_of(project).num_rows == 16


def test_unusable_lines_take_offsets_and_are_counted_and_shown(cli, project):
    (project / "mixed.jsonl").write_text(GOOD + "nonsense\n\n" + GOOD.replace('"a"', "7") + GOOD)
    answered = cli("send", "events", "mixed.jsonl")
    assert answered.code == 0
    assert answered.out == "events: 4 rows\n"
    assert "2 of them unusable" in answered.err
    assert "row 2: not_json" in answered.err
    assert "row 3: type" in answered.err
    found = cli("send", "events", "mixed.jsonl", "--json").json
    assert (found["rows"], found["rejects"]) == (4, 2)
    assert [first["row"] for first in found["first"]] == [2, 3]


def test_a_repeated_sequence_doubles_nothing(cli, project):
    first = cli("send", "events", "events.jsonl", "--producer", "loader", "--sequence", 5, "--json").json
    second = cli("send", "events", "events.jsonl", "--producer", "loader", "--sequence", 5, "--json").json
    assert first == second
    assert first["next_sequence"] == 6
    assert rows_of(project).num_rows == 8


@pytest.mark.parametrize("format", ["csv", "arrow", "parquet", "ndjson"])
def test_the_format_is_read_from_the_files_name(cli, project, format):
    table = pa.table(
        {"phone_id": ["a", "b"], "time": pa.array([0, 1], pa.timestamp("us", tz="UTC")), "action": ["open", "close"]}
    )
    file = project / f"rows.{format}"
    if format == "csv":
        file.write_text("phone_id,time,action\na,1970-01-01T00:00:00Z,open\nb,1970-01-01T00:00:00.000001Z,close\n")
    elif format == "ndjson":
        file.write_text(GOOD + GOOD)
    elif format == "parquet":
        pq.write_table(table, file)
    else:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write(table)
    answered = cli("send", "events", file, "--json")
    assert (answered.json["rows"], answered.json["rejects"]) == (2, 0)
    if format in ("arrow", "parquet", "csv"):
        assert sorted(rows_of(project).select(table.column_names).to_pylist(), key=str) == sorted(table.to_pylist(), key=str)


def test_lines_of_text(cli, project):
    assert cli("new", "words", "--template", "word_count").code == 0
    answered = cli("send", "words", "lines", "words/lines.txt", "--json")
    assert (answered.json["app"], answered.json["rows"]) == ("word_count", 3)


def pipe(project, data, *arguments):
    return subprocess.run(
        [*HEADRACE, "send", "events", "-", *arguments], cwd=project, input=data, capture_output=True, check=False
    )


def test_standard_input_has_json_lines(project):
    ended = pipe(project, (GOOD + GOOD.rstrip("\n")).encode())
    assert (ended.returncode, ended.stdout) == (0, b"events: 2 rows\n")


def test_arrow_from_a_pipe(project):
    sink = io.BytesIO()
    table = pa.table({"phone_id": ["a"], "time": pa.array([0], pa.timestamp("us", tz="UTC")), "action": ["open"]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    assert pipe(project, sink.getvalue(), "--format", "arrow").returncode == 0
    assert rows_of(project).column("action").to_pylist() == ["open"]
    assert pipe(project, b"", "--format", "parquet").returncode == 2


def test_a_line_longer_than_a_line_may_be_is_one_reject(project):
    ended = pipe(project, GOOD.encode() + b'{"phone_id": "' + b"x" * (17 << 20) + b'"}\n' + GOOD.encode())
    assert ended.stdout == b"events: 3 rows\n"
    reasons = rows_of(project).column("_reason").to_pylist()
    assert sorted(reasons, key=str) == [None, None, "too_long"]


def test_lines_from_a_pipe_are_in_the_topic_before_the_pipe_ends(project):
    with subprocess.Popen(
        [*HEADRACE, "topic", "tail", "events", "--follow"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as none:
        none.communicate()
    assert none.returncode == 2, "there is no topic yet"
    subprocess.run([*HEADRACE, "topic", "create"], cwd=project, check=True, capture_output=True)
    send = subprocess.Popen([*HEADRACE, "send", "events", "-"], cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    tail = subprocess.Popen([*HEADRACE, "topic", "tail", "events", "--follow"], cwd=project, stdout=subprocess.PIPE, text=True)
    try:
        send.stdin.write(GOOD.encode())
        send.stdin.flush()
        assert '"action": "open"' in tail.stdout.readline()
        assert send.poll() is None
        out, _ = send.communicate()
        assert out == b"events: 1 row\n"
    finally:
        tail.terminate()
        tail.communicate()
        send.kill()
        send.wait()
    assert tail.returncode == -15


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["events"], "FILE missing"),
        (["events", ".", "--format", "json"], "no ordinary file"),
        (["ghosts", "events.jsonl"], 'the app has no topic "ghosts"'),
        (["events", "app.py"], "cannot tell the format"),
        (["events", "events.jsonl", "--format", "xml"], 'no format "xml"'),
        (["events", "events.jsonl", "--sequence", "1"], "belong together"),
        (["other.py", "events", "events.jsonl"], "there is no file"),
    ],
)
def test_wrong_use_ends_with_2(cli, project, arguments, says):
    answered = cli("send", *arguments)
    assert answered.code == 2
    assert says in answered.err
    assert answered.out == ""


def test_a_missing_file_ends_with_3(cli, project):
    answered = cli("send", "events", "missing.jsonl")
    assert (answered.code, answered.out) == (3, "")
    assert "there is no file missing.jsonl" in answered.err
