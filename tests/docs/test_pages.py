"""What the documentation shows is what happens."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.docs.pages import DOCS, play

PROJECT = DOCS.parent
PAGES = [PROJECT / "README.md", DOCS / "start.md", DOCS / "concepts.md"]
EXAMPLES = [page for page in sorted(PROJECT.glob("examples/*/README.md")) if "```console" in page.read_text()]
LINKING = [PROJECT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(PROJECT.glob("examples/*/README.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs_and_prints_what_it_says(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for said in play(page):
        assert said.printed == said.expected, said.command


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda page: page.parent.name)
def test_every_command_of_an_example_runs_and_prints_what_its_page_says(
    example: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / example.parent.name
    shutil.copytree(example.parent, copy, ignore=shutil.ignore_patterns("headrace-data", "__pycache__"))
    monkeypatch.chdir(copy)
    for said in play(example):
        assert not said.expected or said.printed == said.expected, said.command


@pytest.mark.parametrize("page", LINKING)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    missing = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if "://" in target or path == "benchmarks.md" or path == "docs/benchmarks.md":
            continue
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            missing.append(target)
    assert not missing


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
