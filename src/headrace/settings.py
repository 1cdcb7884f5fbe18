"""Settings: read once at the edge, frozen, each with where it came from.

Order: option, environment (`HEADRACE_...`), file (`headrace.toml`), the app's own arguments, default.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from headrace.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def default_memory() -> str:
    """A quarter of the memory that this process may use, between one and eight gigabytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # In a container the machine's memory is not ours: the JVM would be killed when it fills what it believes it has.
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return f"{min(8192, max(1024, total // 4 // 2**20))}m"


class Settings(BaseSettings):
    """What can be set without touching the app's code.

    >>> Settings(spark_master="local[2]").spark_master
    'local[2]'
    """

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", frozen=True, extra="forbid")

    data: Path | None = Field(default=None, description="folder for topics, tables and everything else; default: beside the app")
    store: str | None = Field(default=None, description="where tables are kept, as sqlite:///FILE; default: in the data folder")
    spark_master: str = Field(default="local[*]", description="where Spark runs")
    spark_memory: str = Field(
        default_factory=default_memory, description="memory of Spark's driver; default: a quarter of the machine's"
    )
    max_rows_per_epoch: int = Field(
        default=4_000_000, ge=1, description="rows of all sources together that one epoch takes at most"
    )
    debug: bool = Field(default=False, description="show tracebacks and debug logs")

    origins: Mapping[str, str] = Field(default_factory=dict, exclude=True, repr=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment; files are read by `load`, which knows where the project is."""
        return init_settings, env_settings

    @classmethod
    def load(
        cls, options: Mapping[str, Any] | None = None, *, project: Path | None = None, app: Mapping[str, Any] | None = None
    ) -> Settings:
        """Settings of one command: options that were given, environment, `headrace.toml` in `project`, the app's arguments."""
        given: dict[str, Any] = {}
        origins: dict[str, str] = {}
        file = project / "headrace.toml" if project else None
        layers: list[tuple[str, Mapping[str, Any]]] = [
            ("option", {name: value for name, value in (options or {}).items() if value is not None}),
            ("environment", _environment(cls)),
            (str(file), read_toml(file).get("settings", {}) if file and file.is_file() else {}),
            ("app", {name: value for name, value in (app or {}).items() if value is not None}),
        ]
        for origin, values in layers:
            for name, value in values.items():
                if name not in cls.model_fields or name == "origins":
                    known = ", ".join(sorted(set(cls.model_fields) - {"origins"}))
                    raise UsageError(f'there is no setting "{name}" ({origin})', hint=f"one of {known}")
                if name not in given:
                    given[name] = value
                    origins[name] = f"HEADRACE_{name.upper()}" if origin == "environment" else origin
        for name in cls.model_fields:
            if name != "origins":
                origins.setdefault(name, "default")
        try:
            return cls(**given, origins=origins)
        except ValidationError as problem:
            first = problem.errors()[0]
            name = str(first["loc"][0]) if first["loc"] else "?"
            raise UsageError(
                f'setting "{name}" cannot be {first["input"]!r}', details=[f"{origins.get(name, 'given')}: {first['msg']}"]
            ) from None


def _environment(settings: type[Settings]) -> dict[str, str]:
    names = {name: f"HEADRACE_{name.upper()}" for name in settings.model_fields if name != "origins"}
    return {name: os.environ[variable] for name, variable in names.items() if variable in os.environ}


def read_toml(file: Path) -> dict[str, Any]:
    """A TOML file, or an error that names it."""
    try:
        read: dict[str, Any] = tomllib.loads(file.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"cannot read {file}", details=[str(problem)]) from None
    return read
