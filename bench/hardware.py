"""On what the numbers were measured."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import lru_cache
from pathlib import Path

import pyspark

from headrace.spark.java import java_home


@lru_cache
def hardware() -> str:
    """Cores, processor, memory, and the versions of what runs on them, in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{cores} cores of {_processor()}, {memory:.0f} GB"
    software = f"{platform.system()} {platform.release().split('-')[0]}, Java {_java()}, Python {platform.python_version()}"
    return f"{machine}, {software}, Spark {pyspark.__version__}"


def _processor() -> str:
    try:
        named = dict(line.split(":", 1) for line in Path("/proc/cpuinfo").read_text().splitlines() if ":" in line)
    except OSError:
        return platform.processor() or platform.machine()
    fields = {name.strip(): value.strip() for name, value in named.items()}
    name = fields.get("model name", "")
    if len(name) > 3 and name != "unknown":
        return name
    # Some virtual machines hide the name; family and model still tell processors apart.
    vendor, family, model = (fields.get(key, "?") for key in ("vendor_id", "cpu family", "model"))
    return f"{vendor} family {family} model {model} ({platform.machine()})"


def _java() -> str:
    said = subprocess.run([str(java_home() / "bin" / "java"), "-version"], capture_output=True, text=True).stderr
    return said.split('"')[1] if '"' in said else "unknown"
