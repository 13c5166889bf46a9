"""What a tree of processes has used, as the kernel counts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for task in _listed(Path("/proc", str(pid), "task")):
        for child in _read(task / "children").split():
            yield from tree(int(child))


def cpu_s(pid: int) -> float:
    """CPU seconds of a tree since it began, those of its members that have ended and been waited for included."""
    ticks = 0
    for member in tree(pid):
        fields = _read(Path("/proc", str(member), "stat")).rpartition(")")[2].split()
        # Fields 14 to 17 of proc(5): user and system time, of the process and of its ended children.
        ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS_PER_S


def python_worker_peak_mb(pid: int) -> float:
    """The largest resident size, in MiB, that any Python process of the tree has had."""
    return max((_peak_kb(member) for member in tree(pid) if _is_python(member)), default=0) / 1024


def memory_mb(pid: int) -> dict[str, float]:
    """What the members of a tree have to themselves and their share of what they have in common (PSS), in MiB: the
    `jvm` apart from `python`.
    """
    sizes = dict.fromkeys(("jvm", "python"), 0.0)
    for member in tree(pid):
        lines = _read(Path("/proc", str(member), "smaps_rollup")).splitlines()
        size_kb = next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
        sizes["jvm" if _is(b"java", member) else "python"] += size_kb / 1024
    return sizes


def _is_python(pid: int) -> bool:
    return _is(b"python", pid)


def _is(program: bytes, pid: int) -> bool:
    return program in _read_bytes(Path("/proc", str(pid), "cmdline")).split(b"\0")[0]


def _peak_kb(pid: int) -> int:
    lines = _read(Path("/proc", str(pid), "status")).splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # ended meanwhile
        return []


def _read(file: Path) -> str:
    return _read_bytes(file).decode(errors="replace")


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # ended meanwhile
        return b""
