"""The jars of each Kafka: lists of Maven coordinates, pinned by SHA-256, one file in `locks/` per class path.

A line reads `group:artifact:version sha256:HEX BYTES`, or `group:artifact:version:type:classifier sha256:HEX BYTES` for
an artifact that is no plain jar; blank lines and lines starting with `#` are ignored.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath
from typing import Final, Literal

from isthmus.errors import InvariantError

LockName = Literal[
    "broker-4.4.0",
    "tools-4.4.0",
    "tools-3.9.1",
    "streams-4.3.1",
    "mm2-4.3.1",
    "zk-2.8.2",
    "zk-3.9.1",
    "apicurio-3.0.9",
]
"""KRaft brokers, Kafka's console tools, Kafka Streams with its examples, MirrorMaker 2, brokers in ZooKeeper mode, and
a schema registry.
"""

_NAME: Final = r"([\w.-]+)"
_LINE: Final = re.compile(rf"{_NAME}:{_NAME}:{_NAME}(?::{_NAME}:{_NAME})? sha256:([0-9a-f]{{64}}) ([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Jar:
    """One pinned artifact, a jar or what its `type` says. `path` is where it lies below the folder of all jars."""

    group: str
    artifact: str
    version: str
    sha256: str
    size_bytes: int
    type: str = "jar"
    classifier: str = ""

    @property
    def path(self) -> PurePosixPath:
        name = "-".join(filter(None, (self.artifact, self.version, self.classifier)))
        return PurePosixPath(self.group, self.artifact, self.version, f"{name}.{self.type}")

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """The jars of one class path, in its order. `digest` identifies the contents and the order."""

    name: str
    jars: tuple[Jar, ...]
    digest: str


def parse_lock(name: str, text: str) -> Lock:
    """The lock in `text`.

    :raises InvariantError: A line is malformed or a jar is listed twice: lock files travel with the
        package.
    """
    jars: dict[PurePosixPath, Jar] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise InvariantError(
                f"{name}.lock line {number} is not `group:artifact:version[:type:classifier] sha256:HEX BYTES`"
            )
        group, artifact, version, kind, classifier, sha256, size = found.groups()
        jar = Jar(
            group=group,
            artifact=artifact,
            version=version,
            sha256=sha256,
            size_bytes=int(size),
            type=kind or "jar",
            classifier=classifier or "",
        )
        if jar.path in jars:
            raise InvariantError(f"{name}.lock line {number} lists {jar} twice")
        jars[jar.path] = jar
    digest = hashlib.sha256("\n".join(f"{jar} {jar.sha256}" for jar in jars.values()).encode()).hexdigest()
    return Lock(name=name, jars=tuple(jars.values()), digest=digest)


def load_lock(name: LockName) -> Lock:
    """The lock file of this name that travels with the package."""
    text = resources.files("isthmus.local").joinpath("locks", f"{name}.lock").read_text()
    return parse_lock(name, text)
