"""Fixtures of the store's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from . import kit as helpers
from .kit import Driver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    """A fresh store, taken over."""
    made = Driver(tmp_path / "store.db")
    yield made
    made.store.close()


@pytest.fixture
def kit() -> ModuleType:
    """Keys, rows and changes in one line each."""
    return helpers
