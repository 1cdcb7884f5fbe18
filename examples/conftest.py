"""What the examples' tests share: each works on a copy of its example, with a data folder of its own."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from headrace.spark.session import start_sessions


@pytest.fixture(scope="session", autouse=True)
def _one_spark(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Start Spark once, small, where the tests did not already: every app borrows it."""
    start_sessions(master="local[2]", memory="1g", scratch=tmp_path_factory.mktemp("spark"), name="headrace-examples")


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the example's folder, without what earlier runs left there."""
    copy = tmp_path / request.path.parent.name
    shutil.copytree(request.path.parent, copy, ignore=shutil.ignore_patterns("headrace-data", "__pycache__", "spark-warehouse"))
    return copy


@pytest.fixture
def example(project: Path) -> ModuleType:
    """The module `app.py` of the copy, imported anew."""
    spec = importlib.util.spec_from_file_location(f"{project.name}_app", project / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
