"""Whether .venv already holds what pyproject.toml asks for: `python scripts/satisfied.py dev jdk`. Needs no network."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def main(extras: list[str]) -> int:
    """0 when everything is there, else 1."""
    try:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        from packaging.requirements import Requirement

        import headrace

        distribution("headrace")
    except (ImportError, PackageNotFoundError):
        return 1
    if not Path(headrace.__file__).is_relative_to(PROJECT):
        return 1
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    for line in wanted:
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            if not requirement.specifier.contains(version(requirement.name), prereleases=True):
                return 1
        except PackageNotFoundError:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
