"""The classes of one lock on one Java, and how they are run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Final

from isthmus.local.jars import OnJars, class_path
from isthmus.local.java import Java, find_java
from isthmus.local.locks import Lock, LockName, load_lock

# Less work for the compiler and the collector while starting: half the time to get ready, at the
# price of speed later.
_FAST_START: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LOGGING: Final = resources.files("isthmus.local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jvm:
    """A Java with a class path. `class_archive` is an AppCDS archive that shortens its start."""

    java: Java
    lock: Lock
    class_path: str
    class_archive: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """For the child process. Here the class path is out of the way: `ps` stays readable."""
        return {**os.environ, "CLASSPATH": self.class_path}

    def command(
        self,
        main_class: str,
        *arguments: str,
        heap_mb: int,
        fast_start: bool = True,
        options: Sequence[str] = (),
    ) -> list[str]:
        """The command that runs a class; give the child `environment` too."""
        archive = self.class_archive
        return [
            str(self.java.executable),
            f"-Xmx{heap_mb}M",
            *(_FAST_START if fast_start else ()),
            *(() if archive is None else (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off")),
            "-XX:-UsePerfData",
            # Kafka logs through log4j 2 since version 4 and through reload4j before.
            f"-Dlog4j2.configurationFile={_LOGGING / 'log4j2.xml'}",
            f"-Dlog4j.configuration=file:{_LOGGING / 'log4j.properties'}",
            *options,
            main_class,
            *arguments,
        ]

    def with_archive(self, archive: Path | None) -> Jvm:
        return replace(self, class_archive=archive)


def jvm_for(name: LockName, *, progress: OnJars | None = None) -> Jvm:
    """The JVM for a lock, its jars fetched if they are not in the cache yet.

    :raises JavaMissing: There is no Java 17 or newer.
    :raises JarsUnavailable: The jars are neither cached nor could they be fetched.
    """
    java, lock = find_java(), load_lock(name)
    return Jvm(java=java, lock=lock, class_path=class_path(lock, java, progress=progress))
