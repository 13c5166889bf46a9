"""What a run is made of: the topics of the source, who writes them, and who changes or carries them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Message

from soak.census import Census
from soak.changed.judge import Rules
from soak.changed.rules import CHANGED, JSON_TOPICS, MODULE, Row, as_it_is, rule_of, transform
from soak.content import Style
from soak.history import History
from soak.judge.evidence import PartitionKey
from soak.mirrors.isthmus import Isthmus, link_document
from soak.mirrors.mirror import Mirror, Supervisor
from soak.mirrors.sink import Sink
from soak.naming import PREFIX
from soak.run import Run
from soak.scene import Scene, create_topic
from soak.side import Side
from soak.spies import GroupSpy
from soak.victims import Victims
from soak.watch import Watch
from soak.workloads.groups import Groups
from soak.workloads.plain import CODECS, Pen, PlainWriter
from soak.workloads.transactional import TransactionalWriter

PARTITIONS: Final = 2
_PLAIN: Final = f"{PREFIX}plain"
_TRANSACTIONS: Final = f"{PREFIX}transactions"
_SINK_TOPICS: Final = (_PLAIN, f"{PREFIX}mixed", _TRANSACTIONS)
_IN_TRANSACTIONS: Final = (f"{PREFIX}chosen", f"{PREFIX}checked", _TRANSACTIONS)
"""Topics to which transactions are written as well."""
_READ: Final = (f"{PREFIX}chosen", f"{PREFIX}counted", _PLAIN)
"""Those that groups read."""
_GROUPS: Final = tuple(f"{PREFIX}group-{number}" for number in range(3))
_RECORDS_PER_S: Final = 4.0
_PAUSE_S: Final = (2.0, 5.0)
"""Little is enough to keep a machine busy that has to make something of each record."""
_ODD: Final = 0.1
_MASTERS: Final = ("local[2]", "local[2,4]")
"""The second one has Spark try tasks again."""
_FUNCTIONS: Final = Path(__file__).with_name("functions.py")
Writer = PlainWriter | TransactionalWriter


@dataclass(slots=True, kw_only=True)
class Stage:
    """Everything of a run, once its clusters are there."""

    run: Run
    scene: Scene
    keys: list[PartitionKey]
    rules: Rules
    writers: list[Writer]
    census: Census
    groups: Groups | None = None
    group_spy: GroupSpy | None = None

    @property
    def history(self) -> History:
        return self.scene.history

    @property
    def records(self) -> int:
        """How many records the source has acknowledged."""
        return sum(writer.acks.count for writer in self.writers)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While the block lasts; at its end all that was begun is ended."""
        workers = [*self.writers, *([] if self.groups is None else [self.groups])]
        for worker in workers:
            worker.begin()
        try:
            yield
        finally:
            for worker in workers:
                worker.end()
            for worker in workers:
                worker.wait()

    @contextmanager
    def at_work(self, stop_s: float) -> Iterator[None]:
        """The copying runs, and everybody looks."""
        with ExitStack() as stack:
            stack.enter_context(self.scene.watch.looking())
            stack.enter_context(self.census.counting())
            if self.group_spy is not None:
                stack.enter_context(self.group_spy.looking())
            stack.enter_context(self.scene.supervisor.keeping(stop_s))
            try:
                yield
            finally:
                self.scene.over.set()


def row_of(message: Message) -> Row:
    """A record as a consumer got it."""
    kind, timestamp = message.timestamp()
    headers: list[tuple[str, bytes | None]] = list(message.headers() or [])  # type: ignore[arg-type]
    return Row(message.offset() or 0, message.key(), message.value(), tuple(headers), kind, timestamp)


def stage_of(run: Run, history: History, source: Side, target: Side) -> Stage:
    """Create the topics, and all that is to work with them; nothing works yet.

    :raises KafkaException: A cluster refused.
    """
    is_link = run.contender == "transform"
    topics = [*CHANGED, _PLAIN] if is_link else list(_SINK_TOPICS)
    rules: Rules = rule_of if is_link else lambda _: as_it_is
    for side in (source,) if is_link else (source, target):
        for topic in topics:
            create_topic(side, topic, partitions=PARTITIONS)
    keys = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
    watch = Watch(source, target, history)
    mirror: Mirror = _link(run, source, target) if is_link else _sink(run, source, target, topics)
    scene = Scene(
        source=source,
        target=target,
        supervisor=Supervisor(mirror, history),
        history=history,
        watch=watch,
        conditions=run.conditions,
        victims=Victims(source, history),
        topics=topics,
    )

    def is_wanted(side: Side, message: Message) -> bool:
        return side is target or isinstance(rules(message.topic() or "")(row_of(message)), Row)

    stage = Stage(
        run=run,
        scene=scene,
        keys=keys,
        rules=rules,
        writers=_writers(topics, source, history, run.seed),
        census=Census([source, target], keys, is_wanted),
    )
    if is_link:
        read = [key for key in keys if key[0] in _READ]
        stage.group_spy = GroupSpy(list(_GROUPS), read, source, target, history)
        stage.groups = Groups(list(_GROUPS), source.servers, history, lambda: _ends(watch, read), run.seed)
    return stage


def _ends(watch: Watch, keys: Sequence[PartitionKey]) -> dict[PartitionKey, int]:
    newest = watch.newest["source"]
    return {key: newest[key].stable for key in keys if key in newest}


def _link(run: Run, source: Side, target: Side) -> Isthmus:
    document = link_document(source, target, run.conditions)
    (link,) = document["links"]
    # Topics of a transform are mapped then, all others keep their offsets.
    topics: Mapping[str, Any] = link["topics"]
    link["topics"] = {name: value for name, value in topics.items() if name != "offsets"}
    link["transform"] = transform()
    shutil.copyfile(_FUNCTIONS, run.folder / f"{MODULE}.py")
    return Isthmus(run.folder, document, is_mapped=True)


def _sink(run: Run, source: Side, target: Side, topics: Sequence[str]) -> Sink:
    master = random.Random(f"master {run.seed}").choice(_MASTERS)
    return Sink(run.folder, source, target, topics, master)


def _writers(topics: Sequence[str], source: Side, history: History, seed: int) -> list[Writer]:
    chance = random.Random(f"writers {seed}")
    writers: list[Writer] = []
    for topic in topics:
        style = Style(value_bytes=chance.choice((50, 400)), is_json=topic in JSON_TOPICS, odd=_ODD)
        label = topic.removeprefix(PREFIX)
        pen = Pen(
            name=label,
            topic=topic,
            partitions=PARTITIONS,
            codec=chance.choice(CODECS),
            linger_ms=chance.choice((2, 100)),
            records_per_s=_RECORDS_PER_S,
            style=style,
        )
        each = chance.randrange(1 << 20)
        if topic != _TRANSACTIONS:
            writers.append(PlainWriter(pen, source, history))
        if topic in _IN_TRANSACTIONS:
            name = f"{label}-in-transactions"
            writers.append(
                TransactionalWriter(
                    name, topic, PARTITIONS, source.servers, history, each, pause_s=_PAUSE_S, style=style
                )
            )
    return writers
