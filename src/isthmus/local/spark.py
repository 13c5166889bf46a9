"""The Spark of the host: the pyspark that can be imported, else the one in `SPARK_HOME`."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from isthmus.errors import SparkMissing

SPARK_MIN: Final = (3, 5)
SPARK_BELOW: Final = (5, 0)
_VERSION: Final = re.compile(r"""__version__[^=]*= *["']([^"']+)""")
_INSTALL: Final = "pip install 'isthmus[spark]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spark:
    """A pyspark that can be imported, its version, and the folder with the Spark that it starts (`bin`, `jars`)."""

    version: str
    home: Path


def find_spark() -> Spark:
    """Make sure that `import pyspark` works: an installed package takes precedence over that of `SPARK_HOME`.

    Nothing is imported.

    :raises SparkMissing: There is none, it is none of 3.5 to 4.x, or `SPARK_HOME` is another version's.
    """
    home = os.environ.get("SPARK_HOME")
    package = _package()
    if package is None and home:
        package = _from(Path(home, "python"))
    if package is None:
        reason = f"SPARK_HOME={home} has no python/pyspark" if home else "neither pyspark nor SPARK_HOME is there"
        raise SparkMissing(f"Spark is needed: {reason}", hint=f"{_INSTALL}, or set SPARK_HOME to a Spark 3.5 or 4.")
    version = _version(package)
    if not SPARK_MIN <= _release(version) < SPARK_BELOW:
        raise SparkMissing(f"Spark {version} at {package} does not do", hint="Spark 3.5 and 4 do.")
    if home and (other := _version(Path(home, "python", "pyspark"))) and _release(other) != _release(version):
        raise SparkMissing(
            f"pyspark {version} would start the Spark {other} of SPARK_HOME={home}",
            hint=f"Unset SPARK_HOME, or install pyspark=={other}.",
        )
    return Spark(version=version, home=Path(home) if home else package)


def _package() -> Path | None:
    """The folder of the pyspark that can be imported now."""
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _from(folder: Path) -> Path | None:
    """Make pyspark and the bridge beside it importable from the folder `python` of a Spark; return pyspark's folder."""
    bridges = sorted(folder.glob("lib/py4j-*-src.zip"))
    if not Path(folder, "pyspark", "__init__.py").exists() or not bridges:
        return None
    sys.path.extend([str(folder), str(bridges[-1])])
    invalidate_caches()
    return _package()


def _version(package: Path) -> str:
    try:
        found = _VERSION.search(Path(package, "version.py").read_text(encoding="utf-8"))
    except OSError:
        return ""
    return found[1] if found else ""


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
