"""Where an app lives, and which setting wins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headrace as hr
from headrace.app import place_of
from headrace.apps import Apps
from headrace.errors import DefinitionError, NotAvailable, UsageError, WorldError
from headrace.place import Place, store_file
from headrace.settings import Settings


def test_the_data_folder_has_the_shape_that_is_written_down(tmp_path):
    place = Place.of("clicks", tmp_path / "headrace-data")
    root = tmp_path / "headrace-data" / "clicks"
    assert place.topic("events") == root / "log" / "events"
    assert (place.store, place.batch_db) == (root / "store.db", root / "batch.db")
    assert (place.marks_lock, place.references) == (root / "marks.lock", root / "references")
    assert (place.lock, place.runner_json, place.tmp) == (root / "run" / "lock", root / "run" / "runner.json", root / "tmp")


def test_a_store_may_be_elsewhere(tmp_path):
    assert Place.of("a", tmp_path / "d", "sqlite:///t.db").store == tmp_path / "t.db"
    assert Place.of("a", tmp_path / "d", f"sqlite:///{tmp_path}/x/t.db").store == tmp_path / "x" / "t.db"
    with pytest.raises(NotAvailable):
        store_file("postgresql://host/db", tmp_path)
    with pytest.raises(UsageError):
        store_file("ftp://host/db", tmp_path)


def test_option_environment_file_app_default_in_that_order(tmp_path, monkeypatch):
    (tmp_path / "headrace.toml").write_text(
        '[settings]\nspark_master = "local[3]"\nmax_rows_per_epoch = 30\ndata = "from_file"\n'
    )
    monkeypatch.setenv("HEADRACE_SPARK_MASTER", "local[2]")
    settings = Settings.load({"spark_master": "local[1]"}, project=tmp_path, app={"data": "from_app", "store": "sqlite:///s.db"})
    assert (settings.spark_master, settings.origins["spark_master"]) == ("local[1]", "option")
    assert (settings.max_rows_per_epoch, settings.origins["max_rows_per_epoch"]) == (30, str(tmp_path / "headrace.toml"))
    assert (settings.data, settings.origins["data"]) == (Path("from_file"), str(tmp_path / "headrace.toml"))
    assert (settings.store, settings.origins["store"]) == ("sqlite:///s.db", "app")
    assert settings.origins["spark_memory"] == "default"
    without = Settings.load({}, project=tmp_path)
    assert (without.spark_master, without.origins["spark_master"]) == ("local[2]", "HEADRACE_SPARK_MASTER")


def test_settings_are_frozen_and_judged(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="frozen"):
        Settings().debug = True
    monkeypatch.setenv("HEADRACE_MAX_ROWS_PER_EPOCH", "many")
    with pytest.raises(UsageError, match=r"max_rows_per_epoch.*many"):
        Settings.load()
    monkeypatch.delenv("HEADRACE_MAX_ROWS_PER_EPOCH")
    (tmp_path / "headrace.toml").write_text("[settings]\nspark_mastre = 1\n")
    with pytest.raises(UsageError, match='no setting "spark_mastre"'):
        Settings.load(project=tmp_path)
    (tmp_path / "headrace.toml").write_text("[settings\n")
    with pytest.raises(UsageError, match="cannot read"):
        Settings.load(project=tmp_path)


def test_what_is_typed_counts_from_here_and_what_is_written_from_the_file(tmp_path, monkeypatch):
    here, project = tmp_path / "here", tmp_path / "project"
    here.mkdir()
    project.mkdir()
    monkeypatch.chdir(here)
    assert place_of("a", project, Settings.load({"data": "d"})).data == here / "d"
    assert place_of("a", project, Settings.load({}, app={"data": "d"})).data == project / "d"
    assert place_of("a", project, Settings.load()).data == project / "headrace-data"
    monkeypatch.setenv("HEADRACE_DATA", "e")
    assert place_of("a", project, Settings.load()).data == here / "e"


def test_an_app_lives_beside_its_file():
    assert hr.App("a").place().data == Path(__file__).parent / "headrace-data"


def test_apps_json_remembers_where_an_app_was(tmp_path):
    apps = Apps(tmp_path)
    assert apps.find("app.py") is None
    place = Place.of("clicks", tmp_path / "headrace-data")
    apps.remember("app.py", place)
    assert json.loads((tmp_path / "headrace-data" / "apps.json").read_text()) == {
        "app.py": {"name": "clicks", "data": "headrace-data", "store": "headrace-data/clicks/store.db"}
    }
    found = Apps(tmp_path).find("app.py")
    assert found is not None
    assert found.place == place
    assert apps.find("app.py:clicks") == found
    assert apps.find("app.py:other") is None


def test_apps_json_stays_beside_the_app_when_data_is_elsewhere(tmp_path):
    project = tmp_path / "p"
    place = Place.of("clicks", tmp_path / "far")
    Apps(project).remember("app.py", place)
    found = Apps(project).find("app.py")
    assert found is not None
    assert found.place == place


def test_several_apps_of_one_file_are_told_apart(tmp_path):
    apps = Apps(tmp_path)
    for name in ("one", "two"):
        apps.remember(f"app.py:{name}_app", Place.of(name, tmp_path / "d"))
    assert apps.find("app.py") is None
    assert [apps.find(f"app.py:{key}").name for key in ("one_app", "two", "two_app")] == ["one", "two", "two"]


def test_a_second_file_with_an_app_of_the_same_name_is_refused_naming_both(tmp_path):
    (tmp_path / "app.py").write_text("")
    place = Place.of("clicks", tmp_path / "headrace-data")
    Apps(tmp_path).remember("app.py", place)
    with pytest.raises(DefinitionError, match=r"app\.py and other\.py"):
        Apps(tmp_path).remember("other.py", place)
    Apps(tmp_path).remember("other.py", Place.of("clicks", tmp_path / "elsewhere"))
    (tmp_path / "app.py").unlink()
    Apps(tmp_path).remember("renamed.py", place)
    assert Apps(tmp_path).find("renamed.py").name == "clicks"


def test_a_broken_apps_json_says_what_to_do(tmp_path):
    (tmp_path / "headrace-data").mkdir()
    (tmp_path / "headrace-data" / "apps.json").write_text('{"app.py": 3}')
    with pytest.raises(WorldError, match="delete it"):
        Apps(tmp_path).find("app.py")
