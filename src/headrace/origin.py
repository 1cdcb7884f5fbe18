"""Where in the user's files a definition stands."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

_OURS = str(Path(__file__).parent)


@dataclass(frozen=True)
class Origin:
    """A file and a line of it.

    >>> str(Origin("app.py", 12))
    'app.py:12'
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @classmethod
    def of_caller(cls) -> Origin:
        """The nearest line on the stack that is not ours."""
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
            frame = frame.f_back
        path = Path(frame.f_code.co_filename)
        try:
            shown = str(path.relative_to(Path.cwd()))
        except ValueError:
            shown = str(path)
        return cls(shown, frame.f_lineno)
