"""Which Java is taken, over folders that look like Javas."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import WorldError
from headrace.spark import java


def fake(folder: Path, version: str, *, release: bool = True) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("21", 21), ("1.8.0_392", 8), ("25-ea", 25)])
@pytest.mark.parametrize("release", [True, False])
def test_the_version_is_read_from_the_release_file_or_asked(tmp_path, text, version, release):
    assert java.version_of(fake(tmp_path / "j", text, release=release)) == version


def test_java_home_comes_first_when_spark_runs_on_it(tmp_path):
    home, on_path = fake(tmp_path / "home", "17.0.1"), fake(tmp_path / "path", "21.0.1")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")})
    assert found == java.Java(home, 17, "JAVA_HOME")


def test_a_java_of_another_version_is_passed_over(tmp_path):
    home, on_path = fake(tmp_path / "home", "1.8.0_1"), fake(tmp_path / "path", "21.0.1")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")})
    assert found == java.Java(on_path, 21, "PATH")


def test_no_java_says_what_to_do(tmp_path, monkeypatch):
    old = fake(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(java, "_FOLDERS", ())
    monkeypatch.setattr(java, "all_javas", lambda environment=None: iter([java.Java(old, 11, "PATH")]))
    java.java_home.cache_clear()
    with pytest.raises(WorldError) as caught:
        java.java_home()
    java.java_home.cache_clear()
    assert "Java 11" in str(caught.value)
    assert 'pip install "headrace[jdk]"' in str(caught.value)
