"""Flights are written on four clusters, one of which is lost for a while; in the end every flight is once on each."""

from __future__ import annotations

import itertools
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from demo import flights, topics
from demo.flights import Flight
from demo.recovery.application import NUMBER, RECORDS_PER_S, Application
from demo.recovery.commands import Operator
from demo.stage import Stage
from demo.topics import KEEP, Topic
from isthmus.cli.output import print_tree
from isthmus.errors import HostError
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.wording import counted

_NOT_PROVEN: Final = 4
_TERM_S: Final = 180.0
_LOOK_S: Final = 0.3
_WRITE_S: Final = 8.0
_TREE: Final = (("ewr", "jfk"), ("lga", "bos"))
_NAMES: Final = tuple(itertools.chain.from_iterable(_TREE))
_LOST: Final = "lga"
_COPIED: Final = re.compile(r'^isthmus_link_records_replicated_total\{.*?link="([^"]*)".*?\} (\S+)$', re.MULTILINE)
FLIGHTS: Final = Topic(name="flights", kind="lz4", partitions=2, codec="lz4", configs=KEEP)
_CONFIGURATION: Final = """\
clusters:
{clusters}
trees:
  - {{name: flights, clusters: [[ewr, jfk], [lga, bos]], topics: [flights]}}
spark:
  conf: {{spark.local.dir: "{folder}"}}
"""


class Held(NamedTuple):
    """What one cluster holds: how often each number is there, and by partition and origin whether they are in order."""

    counts: Counter[int]
    in_order: bool


def perform(stack: ExitStack) -> int:
    """The whole story; returns the exit code. What it starts ends with `stack`.

    :raises IsthmusError: A step could not be done.
    """
    try:
        return Story(stack).perform()
    except KafkaException as error:
        raise HostError(
            f"a cluster refused what the demonstration's own clients asked for: {error}",
            hint="The machine may be very busy: end other work and try again.",
        ) from error


class Story:
    """Tells each step in a line on stderr, and each command as it is given."""

    def __init__(self, stack: ExitStack) -> None:
        self._stage = Stage(stack)
        self._say = self._stage.say
        self._operator = Operator(stack, self._stage.folder, self._say)
        self._say(f"starting four clusters of a broker each: {', '.join(_NAMES)}")
        self._clusters = {name: self._stage.cluster(name, 1) for name in _NAMES}
        self._rows = _by_cluster(flights.read())
        self._numbers = itertools.count()
        self._applications: dict[str, Application] = {}
        self._distributors: list[dict[str, Any]] = []
        (self._port,) = free_ports(1)

    def perform(self) -> int:
        """Everything; returns the exit code: 0 only if every flight is once on every cluster, in its producer's order.

        :raises IsthmusError: A step could not be done.
        :raises KafkaException: A cluster refused what a client of the demonstration asked for.
        """
        self._prepare()
        (tree,) = self._operator.asks("tree show flights")
        self._distributors = tree["distributors"]
        self._operator.runs(f"run --metrics 127.0.0.1:{self._port}")
        self._start_writing()
        self._await("what was written on each cluster is on all others", self._flows)
        lost = self._clusters[_LOST].broker(1)
        self._say(f"{_LOST} is lost: its broker is killed, while all applications write on")
        lost.kill()
        time.sleep(_WRITE_S)
        self._say(f"{_LOST} comes back")
        lost.start()
        time.sleep(_WRITE_S)
        for application in self._applications.values():
            application.stop()
        total = sum(len(application.acknowledged) for application in self._applications.values())
        self._say(f"{counted(total, 'flight')} were acknowledged, by four clusters")
        self._await("every cluster has as many", lambda: all(end >= total for end in self._ends().values()))
        self._draw()
        return self._prove(total)

    def _prepare(self) -> None:
        for cluster in self._clusters.values():
            cluster.wait_until_ready()
            topics.create(cluster.bootstrap_servers, (FLIGHTS,), 1)
        clusters = "\n".join(
            f'  {name}: {{bootstrap_servers: "{cluster.bootstrap_servers}"}}'
            for name, cluster in self._clusters.items()
        )
        file = self._stage.folder / "isthmus.yaml"
        file.write_text(_CONFIGURATION.format(clusters=clusters, folder=self._stage.folder))

    def _start_writing(self) -> None:
        for name, cluster in self._clusters.items():
            application = Application(cluster.bootstrap_servers, FLIGHTS, self._rows[name], numbers=self._numbers)
            application.start()
            self._applications[name] = application
        self._say(f"an application on each cluster writes {RECORDS_PER_S:,} flights a second: those of its airport")

    def _flows(self) -> bool:
        """Whether every distributor has copied something."""
        copied = self._copied()
        return len(copied) == len(self._distributors) and all(copied.values())

    def _copied(self) -> dict[str, int]:
        """How many flights each distributor has copied, by its own metrics."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=_TERM_S) as answer:
                text = answer.read().decode()
        except OSError:
            # The run has not begun yet.
            return {}
        return {name: int(float(count)) for name, count in _COPIED.findall(text)}

    def _ends(self) -> dict[str, int]:
        """How many flights there are on each cluster."""
        return {name: _end(cluster) for name, cluster in self._clusters.items()}

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        begun = self._stage.elapsed_s
        while not condition():
            if self._stage.elapsed_s - begun > _TERM_S:
                raise HostError(f"{what}: not after {_TERM_S:g} s", hint=self._operator.last_words())
            time.sleep(_LOOK_S)
        self._say(f"{what}, after {self._stage.elapsed_s - begun:.1f} s")

    def _draw(self) -> None:
        """The tree with what came over each of its edges."""
        copied = self._copied()
        branches: list[tuple[str, str]] = []
        for number, pair in enumerate(_TREE, 1):
            branches.append((f"/{number}", "level 1"))
            for name in pair:
                own = len(self._applications[name].acknowledged)
                branches.append((f"/{number}/{name}", f"{counted(own, 'flight')} of its own"))
                branches += [
                    (
                        f"/{number}/{name}/to {each['target']}",
                        f"level {each['level']}: {counted(copied[each['name']], 'flight')}",
                    )
                    for each in self._distributors
                    if each["cluster"] == name
                ]
        print_tree("flights: level 2", branches)
        self._say("so many were copied as were answered: what arrived while an answer was lost is not counted")

    def _prove(self, total: int) -> int:
        origins = {
            number: name for name, application in self._applications.items() for number in application.acknowledged
        }
        is_proven = True
        for name, cluster in self._clusters.items():
            held = _held(cluster, origins)
            missing = origins.keys() - held.counts.keys()
            twice = sum(count > 1 for count in held.counts.values())
            strange = held.counts.keys() - origins.keys()
            is_alike = not (missing or twice or strange) and held.in_order
            is_proven = is_proven and is_alike
            told = "each once, in the order of its producer" if is_alike else "NOT AS IT SHOULD BE"
            self._say(
                f"{name} has {counted(sum(held.counts.values()), 'flight')}, {told}"
                + ("" if is_alike else f": {len(missing)} missing, {twice} twice, {len(strange)} unknown")
            )
        self._say(f"proven: all {total:,} flights are once on every cluster" if is_proven else "NOT PROVEN")
        return 0 if is_proven else _NOT_PROVEN


def _by_cluster(rows: Sequence[Flight]) -> dict[str, list[Flight]]:
    """The flights of each cluster: those to Boston on one, all others on that of the airport they leave from."""
    found: dict[str, list[Flight]] = {name: [] for name in _NAMES}
    for row in rows:
        origin, _, destination = row.route.decode().lower().partition("-")
        found["bos" if destination == "bos" else origin].append(row)
    return found


def _end(cluster: LocalCluster) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "unused", "log_level": 0})
    try:
        partitions = [TopicPartition(FLIGHTS.name, number) for number in range(FLIGHTS.partitions)]
        return sum(consumer.get_watermark_offsets(each, timeout=_TERM_S)[1] for each in partitions)
    finally:
        consumer.close()


def _held(cluster: LocalCluster, origins: Mapping[int, str]) -> Held:
    """What a consumer of another library reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    counts: Counter[int] = Counter()
    last: dict[tuple[int, str], int] = {}
    in_order, left = True, FLIGHTS.partitions
    try:
        consumer.assign([TopicPartition(FLIGHTS.name, number, 0) for number in range(FLIGHTS.partitions)])
        while left:
            message = consumer.poll(_TERM_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                left -= 1
                continue
            number = int(dict(message.headers() or [])[NUMBER] or b"-1")
            key = message.partition() or 0, origins.get(number, "")
            in_order = in_order and last.get(key, -1) < number
            last[key] = number
            counts[number] += 1
    finally:
        consumer.close()
    return Held(counts, in_order)
