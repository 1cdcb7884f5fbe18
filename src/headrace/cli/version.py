"""headrace version"""

from __future__ import annotations

import platform
from importlib.metadata import version

from headrace import __version__
from headrace.cli import output
from headrace.cli.options import Json

NAME = "version"


def command(json: Json = False) -> None:
    """The versions of Headrace and of what it stands on.

    \b
    Example:
      headrace version
    """
    versions = {
        "headrace": __version__,
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "pyarrow": version("pyarrow"),
    }
    if json:
        output.answer({"versions": versions})
    else:
        output.say("\n".join(f"{name} {number}" for name, number in versions.items()))
