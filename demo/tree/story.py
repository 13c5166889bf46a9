"""Flights are written on four clusters, one of which is lost for a while; in the end every flight is once on each.

A group of consumers reads on the cluster that is lost, goes on at another one, and comes back.
"""

from __future__ import annotations

import itertools
import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from confluent_kafka import KafkaException

from demo import flights, topics
from demo.flights import Flight
from demo.recovery.application import Application
from demo.recovery.commands import Operator
from demo.stage import Stage
from demo.topics import KEEP, Topic
from demo.tree.looking import ends, from_times, held, last_times
from demo.tree.passengers import GROUP, Departures
from demo.tree.schemas import Primary, Reading
from isthmus.cli.output import print_tree
from isthmus.errors import HostError
from isthmus.local.apicurio import ApicurioServer
from isthmus.local.ports import free_ports
from isthmus.model.text.wording import format_count

_NOT_PROVEN: Final = 4
_TERM_S: Final = 180.0
_LOOK_S: Final = 0.5
_WRITE_S: Final = 6.0
_TREE: Final = (("ewr", "jfk"), ("lga", "bos"))
_NAMES: Final = tuple(itertools.chain.from_iterable(_TREE))
_PRIMARY: Final = "ewr"
_LOST: Final = "lga"
_REGISTRIES: Final = (_PRIMARY, _LOST)
_RECORDS_PER_S: Final = 150
_MARGIN_S: Final = 20
_LATE_S: Final = _MARGIN_S / 2
_COPIED: Final = re.compile(r'^isthmus_link_records_replicated_total\{.*?link="([^"]*)".*?\} (\S+)$', re.MULTILINE)
_LATE: Final = re.compile(r'^isthmus_link_lag_seconds\{.*?link="([^"]*)".*?\} (\S+)$', re.MULTILINE)
FLIGHTS: Final = Topic(name="flights", kind="lz4", partitions=2, codec="lz4", configs=KEEP)
_CONFIGURATION: Final = """\
clusters: {clusters}
trees:
  - {{name: flights, clusters: [[ewr, jfk], [lga, bos]], topics: [flights], groups: [{group}], margin_s: {margin}}}
schemas: {{primary: {primary}, interval_s: 2}}
spark:
  conf: {{spark.local.dir: "{folder}"}}
"""


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
        self._stack = stack
        self._stage = Stage(stack)
        self._say = self._stage.say
        self._operator = Operator(stack, self._stage.folder, self._say)
        self._say(f"starting four clusters of a broker each, {', '.join(_NAMES)}, and two schema registries")
        self._clusters = {name: self._stage.cluster(name, 1) for name in _NAMES}
        threads = stack.enter_context(ThreadPoolExecutor(len(_REGISTRIES)))
        starting = {name: threads.submit(ApicurioServer.start) for name in _REGISTRIES}
        rows = _by_cluster(flights.read())
        registries = {name: stack.enter_context(_started(each)) for name, each in starting.items()}
        self._urls = {name: registry.url for name, registry in registries.items()}
        self._primary = Primary(stack, registries[_PRIMARY], FLIGHTS.name)
        self._rows = dict(zip(_NAMES, self._primary.write(rows[name] for name in _NAMES), strict=True))
        self._readings = {name: Reading(stack, registry, FLIGHTS.name) for name, registry in registries.items()}
        self._departures = Departures(FLIGHTS.name, FLIGHTS.partitions)
        self._numbers = itertools.count()
        self._applications: dict[str, Application] = {}
        self._distributors: list[dict[str, Any]] = []
        self._is_proven = self._has_been_in_time = True
        (self._port,) = free_ports(1)

    def perform(self) -> int:
        """Everything; returns the exit code: 0 only if every flight is once on every cluster, in its producer's order,
        and the group has missed none.

        :raises IsthmusError: A step could not be done.
        :raises KafkaException: A cluster refused what a client of the demonstration asked for.
        """
        self._prepare()
        (tree,) = self._operator.asks("tree show flights")
        self._distributors = tree["distributors"]
        self._operator.runs(f"run --metrics 127.0.0.1:{self._port}")
        self._start_writing()
        self._await("what was written on each cluster is on all others", self._flows)
        self._await(f"the registry of {_LOST} has both schemas of the primary one, {_PRIMARY}'s", self._has_schemas)
        self._see_if_in_time()
        self._read_at(_LOST)
        self._await(
            f"the group has a position at {_PRIMARY}",
            lambda: len(self._departures.positions(self._clusters[_PRIMARY])) == FLIGHTS.partitions,
        )
        self._see_if_in_time()
        lost = self._clusters[_LOST].broker(1)
        self._say(f"{_LOST} is lost: its broker is killed, while all applications write on")
        lost.kill()
        self._departures.leave()
        self._read_at(_PRIMARY)
        time.sleep(_WRITE_S)
        self._say(f"{_LOST} comes back")
        lost.start()
        time.sleep(_WRITE_S)
        for application in self._applications.values():
            application.stop()
        total = sum(len(application.acknowledged) for application in self._applications.values())
        self._say(f"{format_count(total, 'flight')} were acknowledged, by four clusters")
        self._await("every cluster has as many", lambda: all(end >= total for end in self._ends().values()))
        self._go_home()
        self._draw()
        return self._prove()

    def _prepare(self) -> None:
        for cluster in self._clusters.values():
            cluster.wait_until_ready()
            topics.create(cluster.bootstrap_servers, (FLIGHTS,), 1)
        clusters: dict[str, dict[str, object]] = {
            name: {"bootstrap_servers": cluster.bootstrap_servers} for name, cluster in self._clusters.items()
        }
        for name, url in self._urls.items():
            clusters[name]["schema_registry"] = {"url": url}
        file = self._stage.folder / "isthmus.yaml"
        values = {"folder": self._stage.folder, "group": GROUP, "margin": _MARGIN_S, "primary": _PRIMARY}
        file.write_text(_CONFIGURATION.format(clusters=json.dumps(clusters), **values))

    def _start_writing(self) -> None:
        for name, cluster in self._clusters.items():
            application = Application(
                cluster.bootstrap_servers,
                FLIGHTS,
                self._rows[name],
                numbers=self._numbers,
                records_per_s=_RECORDS_PER_S,
            )
            application.start()
            self._applications[name] = application
        self._say(
            f"an application on each cluster writes {_RECORDS_PER_S:,} flights a second, those of its airport, with "
            "one of two schemas"
        )

    def _flows(self) -> bool:
        """Whether every distributor has copied something."""
        copied = self._measured(_COPIED)
        return len(copied) == len(self._distributors) and all(copied.values())

    def _is_in_time(self) -> bool:
        """Whether no distributor has anything to copy that is old."""
        late = self._measured(_LATE)
        return len(late) == len(self._distributors) and max(late.values()) < _LATE_S

    def _see_if_in_time(self) -> None:
        """See whether flights take less than the margin of positions, for as long as that may be waited for. What the
        group misses where they take longer is told, and proves nothing.
        """
        deadline = self._stage.elapsed_s + _MARGIN_S
        while not (is_in_time := self._is_in_time()) and self._stage.elapsed_s < deadline:
            time.sleep(_LOOK_S)
        self._has_been_in_time = self._has_been_in_time and is_in_time
        told = "less" if is_in_time else "more: this machine is too busy for it"
        self._say(f"positions have a margin of {_MARGIN_S} s, and flights take {told}")

    def _has_schemas(self) -> bool:
        readings = self._readings.values()
        return len({reading.versions(self._primary.subject) for reading in readings} - {0}) == 1

    def _measured(self, series: re.Pattern[str]) -> dict[str, float]:
        """What the run tells of each distributor."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=_TERM_S) as answer:
                text = answer.read().decode()
        except OSError:
            # The run has not begun yet.
            return {}
        return {name: float(value) for name, value in series.findall(text)}

    def _ends(self) -> dict[str, int]:
        """How many flights there are on each cluster."""
        return {name: sum(ends(cluster, FLIGHTS).values()) for name, cluster in self._clusters.items()}

    def _read_at(self, name: str) -> None:
        """Have the group go on at a cluster."""
        positions = self._departures.positions(self._clusters[name])
        told = ", ".join(f"{offset:,}" for _, offset in sorted(positions.items())) or "the beginning"
        self._say(f"group {GROUP} reads at {name}, from {told} on, with the schemas of the registry there")
        self._departures.read_at(self._clusters[name], self._readings[name])

    def _go_home(self) -> None:
        """Have the group read everything where it is, and then what is left where it was."""
        here = self._clusters[_PRIMARY]
        self._await(
            f"the group has read {_PRIMARY} to the end",
            lambda: self._departures.positions(here) == ends(here, FLIGHTS),
        )
        self._departures.leave()
        wanted = from_times(
            self._clusters[_LOST],
            FLIGHTS,
            {part: time_ms - 1000 * _MARGIN_S for part, time_ms in last_times(here, FLIGHTS).items()},
        )
        self._await(
            f"its position at {_LOST} is the margin of {_MARGIN_S} s before what it has read",
            lambda: self._departures.positions(self._clusters[_LOST]) == wanted,
        )
        before, left = (
            self._departures.seen.total(),
            sum(ends(self._clusters[_LOST], FLIGHTS).values()) - sum(wanted.values()),
        )
        self._read_at(_LOST)
        self._await(
            f"the group has read the last {format_count(left, 'flight')} again there",
            lambda: self._departures.seen.total() - before >= left,
        )
        self._departures.leave()

    def _acknowledged(self) -> dict[int, str]:
        """The number of each flight, and where it was written."""
        return {number: name for name, application in self._applications.items() for number in application.acknowledged}

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        begun = self._stage.elapsed_s
        while not condition():
            if self._stage.elapsed_s - begun > _TERM_S:
                raise HostError(f"{what}: not after {_TERM_S:g} s", hint=self._operator.last_words())
            time.sleep(_LOOK_S)
        self._say(f"{what}, after {self._stage.elapsed_s - begun:.1f} s")

    def _draw(self) -> None:
        """The tree with what came over each of its edges, which makes up what each cluster holds."""
        (tree,) = self._operator.asks("tree show flights --counts")
        edges = tree["distributors"]
        branches: list[tuple[str, str]] = []
        for number, pair in enumerate(_TREE, 1):
            branches.append((f"/{number}", "level 1"))
            for name in pair:
                own = len(self._applications[name].acknowledged)
                branches.append((f"/{number}/{name}", f"{format_count(own, 'flight')} of its own"))
                branches += [
                    (
                        f"/{number}/{name}/to {each['target']}",
                        f"level {each['level']}: {format_count(each['copied_records'], 'flight')}",
                    )
                    for each in edges
                    if each["cluster"] == name
                ]
        print_tree("flights: level 2", branches)
        there = self._ends()
        for name in _NAMES:
            own = len(self._applications[name].acknowledged)
            came = {each["cluster"]: each["copied_records"] for each in edges if each["target"] == name}
            told = " + ".join(f"{count:,} from {source}" for source, count in came.items())
            is_all = own + sum(came.values()) == there[name]
            self._say(f"{name}: {own:,} of its own + {told} {'=' if is_all else 'IS NOT'} {there[name]:,}")
            self._is_proven = self._is_proven and is_all

    def _prove(self) -> int:
        origins = self._acknowledged()
        for name, cluster in self._clusters.items():
            found = held(cluster, FLIGHTS, origins)
            missing = origins.keys() - found.counts.keys()
            twice = sum(count > 1 for count in found.counts.values())
            strange = found.counts.keys() - origins.keys()
            is_alike = not (missing or twice or strange) and found.in_order
            self._is_proven = self._is_proven and is_alike
            told = "each once, in the order of its producer" if is_alike else "NOT AS IT SHOULD BE"
            self._say(
                f"{name} has {format_count(sum(found.counts.values()), 'flight')}, {told}"
                + ("" if is_alike else f": {len(missing)} missing, {twice} twice, {len(strange)} unknown")
            )
        seen, unreadable = self._departures.seen, self._departures.unreadable
        missed = origins.keys() - seen.keys()
        again = seen.total() - len(seen)
        self._is_proven = self._is_proven and not unreadable and not (missed and self._has_been_in_time)
        self._say(
            f"group {GROUP} missed {format_count(len(missed), 'flight')}, read {again:,} again, and found no schema "
            f"for {format_count(unreadable, 'flight')}"
        )
        told = f"proven: all {len(origins):,} flights are once on every cluster"
        if not missed:
            told += ", and the group has read all of them"
        self._say(told if self._is_proven else "NOT PROVEN")
        return 0 if self._is_proven else _NOT_PROVEN


@contextmanager
def _started(starting: Future[ApicurioServer]) -> Iterator[ApicurioServer]:
    with starting.result() as server:
        yield server


def _by_cluster(rows: Sequence[Flight]) -> dict[str, list[Flight]]:
    """The flights of each cluster: those to Boston on one, all others on that of the airport they leave from."""
    found: dict[str, list[Flight]] = {name: [] for name in _NAMES}
    for row in rows:
        origin, _, destination = row.route.decode().lower().partition("-")
        found["bos" if destination == "bos" else origin].append(row)
    return found
