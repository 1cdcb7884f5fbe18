"""Who a process is, for as long as the machine stays up: its pid alone is given to others after it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@lru_cache(maxsize=1)
def this_host() -> str:
    """The machine and its boot: after a restart no process of before can be alive.

    A container has the boot id of its machine and a name of its own, so that pids of two containers are not mixed up.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = "unknown"
    return f"{socket.gethostname()}/{boot}"


def started(pid: int) -> str | None:
    """When this process was started, in the kernel's own count; None when there is no such process, or only its remains."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None if Path("/proc/self/stat").exists() or not _answers(pid) else "unknown"
    # The name stands in brackets and may hold anything; what follows its last bracket is plain.
    state, *rest = stat[stat.rindex(")") + 2 :].split()
    return None if state in "ZX" else rest[18]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True)
class Process:
    """A process: pid, host with its boot, and when it was started.

    >>> Process.mine().alive
    True
    """

    pid: int
    host: str
    started: str

    @classmethod
    def mine(cls) -> Process:
        """The process that asks."""
        return cls(os.getpid(), this_host(), started(os.getpid()) or "unknown")

    @classmethod
    def of(cls, value: dict[str, Any]) -> Process:
        """The process that `as_json` described."""
        return cls(int(value["pid"]), str(value["host"]), str(value["process_started"]))

    def as_json(self) -> dict[str, Any]:
        """Its names in files."""
        return {"pid": self.pid, "host": self.host, "process_started": self.started}

    @property
    def near(self) -> bool:
        """Whether it belongs to this machine and this boot."""
        return self.host == this_host()

    @property
    def alive(self) -> bool:
        """Whether exactly this process exists; only for processes that are near."""
        return started(self.pid) == self.started

    def kill(self) -> None:
        """End exactly this process, also one that is stopped; another one with its pid is left alone."""
        if self.pid != os.getpid() and self.near and self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def __str__(self) -> str:
        return f"process {self.pid}" if self.near else f"process {self.pid} on {self.host.split('/')[0]}"
