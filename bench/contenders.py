"""Who copies: every contender is a command that copies topics until it is ended."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

import isthmus
from bench.mirrormaker import TUNED, properties
from bench.pouring import Pour
from isthmus.local.jvm import jvm_for

_PREFIX: Final = "bench-"
_ROOT: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One copy to be made: what `fillings` put into the source goes to the target, each a topic. `label` is unique to
    this copy.
    """

    fillings: tuple[Pour, ...]
    source_servers: str
    target_servers: str
    label: str
    folder: Path

    @property
    def filling(self) -> Pour:
        """The only one, or the first."""
        return self.fillings[0]

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(filling.topic for filling in self.fillings)

    @property
    def records(self) -> int:
        return sum(filling.records for filling in self.fillings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to start, and the topics its records arrive in. `file` is its configuration if it is Isthmus."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    target_topics: tuple[str, ...]
    file: Path | None = None

    def forget(self) -> None:
        """Have the ledgers forget the links that were run, as if they had never been.

        What has written a topic of a tree would stand in the way of whoever copies it next, the other way round.

        :raises IsthmusError: A ledger cannot be written, or somebody runs the links yet.
        """
        if self.file is not None:
            with isthmus.open(self.file) as fabric:
                for link in fabric.configuration.links:
                    fabric.forget_link(link.name, cluster=link.target.alias)


class Contender(Protocol):
    """One way to copy. `creates_topic` tells that it makes its target topic itself."""

    name: str
    creates_topic: bool

    def command(self, copy: Copy) -> Command: ...


def python_command(module: str, task: object) -> tuple[list[str], dict[str, str]]:
    environment = {**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'src'}"}
    return [sys.executable, "-m", module, json.dumps(task)], environment


class Isthmus:
    """`isthmus run`, as anybody would start it: an embedded Spark, leases and all.

    `topics` is more of the section of that name, `more` of that of the link; `prefix` stands for `bench-` at
    the target. With `is_split` each topic has a link of its own.
    """

    creates_topic = False

    def __init__(
        self,
        name: str = "isthmus",
        *,
        prefix: str = _PREFIX,
        topics: Mapping[str, object] = MappingProxyType({}),
        more: Mapping[str, object] = MappingProxyType({}),
        is_split: bool = False,
    ) -> None:
        self.name = name
        self._prefix, self._topics, self._more, self._is_split = prefix, topics, more, is_split

    def command(self, copy: Copy) -> Command:
        name = f"bench-{copy.label}"
        topics = copy.topics
        links_of = (
            {f"{name}-{number}": [topic] for number, topic in enumerate(topics)} if self._is_split else {name: topics}
        )
        links = [
            {
                "name": link,
                "source": "source",
                "target": "target",
                "topics": {"include": list(included), **self._topics},
                **self._more,
            }
            for link, included in links_of.items()
        ]
        arrive_in = tuple(self._prefix + topic.removeprefix(_PREFIX) for topic in topics)
        return _isthmus_run(copy, name, {"links": links}, arrive_in)


class OtherIsthmus(Isthmus):
    """`isthmus run` of another checkout, with what `make env` installed there: an older release, or another try."""

    def __init__(self, checkout: Path) -> None:
        super().__init__("isthmus-other")
        self._checkout = checkout.resolve()

    def command(self, copy: Copy) -> Command:
        ours = super().command(copy)
        arguments = [str(self._checkout / ".venv" / "bin" / "python"), *ours.arguments[1:]]
        environment = {**os.environ, "PYTHONPATH": str(self._checkout / "src")}
        # What it wrote into the ledger is its own matter.
        return replace(ours, arguments=arguments, environment=environment, file=None)


class IsthmusTree:
    """`isthmus run` of a tree of both clusters: what is copied has `flags`, and is read once more by the distributor
    that goes back, which leaves it alone.
    """

    creates_topic = False

    def __init__(self, name: str, *, flags: str) -> None:
        self.name, self._flags = name, flags

    def command(self, copy: Copy) -> Command:
        name = f"bench-{copy.label}"
        tree = {"name": name, "clusters": ["source", "target"], "topics": list(copy.topics), "flags": self._flags}
        return _isthmus_run(copy, name, {"trees": [tree]}, copy.topics)


def _isthmus_run(copy: Copy, name: str, what: Mapping[str, object], target_topics: tuple[str, ...]) -> Command:
    clusters = {
        "source": {"bootstrap_servers": copy.source_servers},
        "target": {"bootstrap_servers": copy.target_servers},
    }
    file = copy.folder / f"{name}.yaml"
    # JSON is YAML too.
    file.write_text(json.dumps({"clusters": clusters, **what}))
    arguments = [sys.executable, "-c", "from isthmus.cli.app import main; main()", "run", "-c", str(file)]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT / "src")}
    return Command(arguments=arguments, environment=environment, target_topics=target_topics, file=file)


class Ceiling:
    """The same batches with no source: what the target's broker takes at most."""

    name = "ceiling"
    creates_topic = False

    def command(self, copy: Copy) -> Command:
        task = json.loads(copy.filling.to_json()) | {"bootstrap_servers": copy.target_servers}
        arguments, environment = python_command("bench.pouring", task)
        return Command(arguments=arguments, environment=environment, target_topics=copy.topics)


class MirrorMaker:
    """MirrorMaker 2 in dedicated mode, `tuned` or with its defaults."""

    creates_topic = True

    def __init__(self, *, tuned: bool) -> None:
        self.name = "mm2-tuned" if tuned else "mm2-default"
        self._settings = TUNED if tuned else {}

    def command(self, copy: Copy) -> Command:
        jvm = jvm_for("mm2-4.3.1")
        # Aliases name MirrorMaker 2's own topics too: with new ones it starts from nothing.
        source = f"a{copy.label}"
        sides = {source: copy.source_servers, f"b{copy.label}": copy.target_servers}
        file = copy.folder / f"{source}.properties"
        file.write_text(properties(copy.filling, sides, self._settings))
        arguments = jvm.command(
            "org.apache.kafka.connect.mirror.MirrorMaker", str(file), heap_mb=2048, fast_start=False
        )
        arrive_in = (f"{source}.{copy.filling.topic}",)
        return Command(arguments=arguments, environment=jvm.environment, target_topics=arrive_in)
