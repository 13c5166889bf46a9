"""The Java runtime that brokers run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from isthmus.errors import JavaMissing

JAVA_MAJOR_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_BUILD: Final = re.compile(r"\(build ([^,)]+)")
_ANSWER_TERM_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java runtime. `build` tells two runtimes apart, such as `17.0.15+6-Debian-1deb12u1`."""

    executable: Path
    major: int
    build: str

    @property
    def keytool(self) -> Path:
        """The key and certificate tool every Java runtime carries."""
        return self.executable.resolve().parent / "keytool"


def find_java() -> Java:
    """The first Java of at least 17: the one in `JAVA_HOME`, else the one on the PATH.

    :raises JavaMissing: There is none, or only older ones.
    """
    found: list[str] = []
    for candidate in _candidates():
        java = _inspect(candidate)
        if java is not None and java.major >= JAVA_MAJOR_MIN:
            return java
        found.append(f"{candidate} is {'no Java' if java is None else f'Java {java.major}'}")
    raise JavaMissing(
        f"Java {JAVA_MAJOR_MIN} or newer is needed" + (f": {', '.join(found)}" if found else " and none was found"),
        hint="Install one (such as the package openjdk-17-jre-headless) or set JAVA_HOME.",
    )


def _candidates() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [Path(home, "bin", "java")] if home else []
    return candidates + ([Path(on_path)] if on_path else [])


@lru_cache(maxsize=8)
def _inspect(executable: Path) -> Java | None:
    try:
        # `-version` writes to stderr, in every Java.
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_TERM_S,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version, build = _VERSION.search(answer), _BUILD.search(answer)
    if version is None:
        return None
    return Java(executable=executable, major=int(version[1]), build=build[1] if build else version[1])
