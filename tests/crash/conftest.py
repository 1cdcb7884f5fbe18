"""Projects for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .kit import Project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Callable[[Path | str], Project]]:
    """Makes projects; their processes end with the test."""
    made: list[Project] = []

    def make(app: Path | str) -> Project:
        made.append(Project(tmp_path / f"project-{len(made)}", app))
        return made[-1]

    yield make
    for each in made:
        each.close()
