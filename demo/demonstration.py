"""The steps of the demonstration in their order."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from confluent_kafka import KafkaException

import isthmus
from demo import flights, load, oracle, report, topics
from demo.flights import Flight, leaving_from
from demo.live import RECORDS_PER_S, Probe, Traffic, quantile
from demo.performance import Performance
from demo.recovery.commands import Operator
from demo.stage import Stage
from isthmus.cli.links.run import show_outcome
from isthmus.cli.links.verify import Watcher
from isthmus.cli.output import OutputFormat
from isthmus.cli.tables.live import LiveProgress
from isthmus.errors import HostError
from isthmus.fabric.fabric import Fabric
from isthmus.local import LocalCluster
from isthmus.local.ports import free_ports
from isthmus.model.links.outcome import RunOutcome
from isthmus.model.links.progress import LinkProgress
from isthmus.model.text.wording import format_count
from isthmus.spark.compare.links import Verdict

BROKERS: Final = {"east": 2, "west": 3}
"""Enough for two replicas at either side, one of which the target can do without while a broker restarts."""
LATEST_FLIGHTS: Final = 40_000
"""Flights in the compacted topic: each offset its cleaner empties costs the target a control record."""
_DIFFERENCE: Final = 4
_LINK: Final = "east-west"
_CONFIGURATION: Final = """\
clusters:
  east: {{bootstrap_servers: "{east}"}}
  west: {{bootstrap_servers: "{west}"}}
links:
  - {{name: east-west, source: east, target: west, topics: {{include: ["flights*"]}}}}
spark:
  conf: {{spark.local.dir: "{folder}"}}
"""


def perform(stack: ExitStack, *, with_console: bool = False) -> int:
    """The whole demonstration; returns the exit code. What it starts ends with `stack`.

    `with_console` has it shown in a browser as well, and left running until Ctrl-C.

    :raises IsthmusError: A step could not be done.
    """
    try:
        return Demonstration(stack, with_console=with_console).perform()
    except KafkaException as error:
        raise HostError(
            f"a cluster refused what the demonstration's own clients asked for: {error}",
            hint="The machine may be very busy: end other work and try again.",
        ) from error


class Demonstration:
    """Tells each step in a line on stderr, and the result in a table on stdout.

    What it starts ends with `stack`.
    """

    def __init__(self, stack: ExitStack, *, with_console: bool = False) -> None:
        self._stage = Stage(stack)
        self._say = self._stage.say
        self._operator = Operator(stack, self._stage.folder, self._say)
        self._console = f"127.0.0.1:{free_ports(1)[0]}" if with_console else ""

    def perform(self) -> int:
        """Everything; returns the exit code: 0 only if both clusters hold the same.

        :raises IsthmusError: A step could not be done.
        :raises KafkaException: A cluster refused what a client of the demonstration asked for.
        """
        east, west, rows = self._start()
        self._fill(east, rows)
        configuration = self._stage.folder / "isthmus.yaml"
        configuration.write_text(
            _CONFIGURATION.format(east=east.bootstrap_servers, west=west.bootstrap_servers, folder=self._stage.folder)
        )
        if self._console:
            self._operator.runs(f"serve --listen {self._console}")
            self._say(f"the console is at http://{self._console}/")
        traffic = Traffic(east.bootstrap_servers, topics.LIVE, rows)
        probe = Probe(west.bootstrap_servers, topics.LIVE)
        performance = Performance(west.brokers[-1], traffic, self._say)
        speeds = report.Speeds()
        with isthmus.open(configuration) as fabric:
            traffic.start()
            probe.start()
            outcome = self._mirror(fabric, performance, speeds)
            if outcome.exit_code:
                show_outcome(outcome, OutputFormat.TABLE)
                return outcome.exit_code
            probe.stop()
            verdict = self._verify(fabric)
        is_seen_alike = self._ask_consumers(east, west)
        latencies_ms = self._latencies(probe, performance)
        report.show(verdict, speeds, latencies_ms, {topics.TRANSACTIONS.name: is_seen_alike})
        is_equal = verdict.equal and is_seen_alike
        self._say("verified: both clusters hold the same" if is_equal else "NOT VERIFIED: the clusters differ")
        if self._console:
            self._say(f"the clusters and the console at http://{self._console}/ stay until Ctrl-C")
            while True:
                signal.pause()
        return 0 if is_equal else _DIFFERENCE

    def _start(self) -> tuple[LocalCluster, LocalCluster, list[Flight]]:
        self._say(
            "starting two clusters: "
            + " and ".join(f"{name} of {format_count(n, 'broker')}" for name, n in BROKERS.items())
        )
        east, west = (self._stage.cluster(name, brokers) for name, brokers in BROKERS.items())
        rows = flights.read()
        for cluster in (east, west):
            cluster.wait_until_ready()
            self._say(f"{cluster.name} is up at {cluster.bootstrap_servers}")
        return east, west, rows

    def _fill(self, east: LocalCluster, rows: Sequence[Flight]) -> None:
        servers = east.bootstrap_servers
        topics.create(servers, topics.TOPICS)
        self._say(f"loading {format_count(len(rows), 'flight')} as JSON")
        latest = load.Load(servers, topics.LATEST)
        latest.send(rows[-LATEST_FLIGHTS:], load.route)
        latest.finish()
        others = [load.Load(servers, topic) for topic in (topics.FLIGHTS, topics.ZSTD)]
        for each in others:
            each.send(leaving_from(each.topic.origin, rows), load.carrier)
        transactions = topics.TRANSACTIONS
        from_there = leaving_from(transactions.origin, rows)
        committed, aborted = load.send_transactions(servers, transactions, from_there)
        for each in others:
            each.finish()
        self._say(
            f"loaded; those from {topics.ZSTD.origin} also with zstd, those from {transactions.origin} also in "
            f"{committed:,} committed and {format_count(aborted, 'aborted transaction')}"
        )

    def _mirror(self, fabric: Fabric, performance: Performance, speeds: report.Speeds) -> RunOutcome:
        self._say(f"mirroring east to west on Spark, while {RECORDS_PER_S:,} records/s go on arriving in the source")
        with LiveProgress() as display:

            def watch(links: tuple[LinkProgress, ...]) -> None:
                display.show(links)
                speeds.see(links)
                performance.watch(links)

            outcome = fabric.run(until=performance.is_over, on_progress=watch)
        if not outcome.exit_code:
            self._say(f"everything is copied: lag {sum(link.lag_records for link in outcome.links):,}")
        return outcome

    def _verify(self, fabric: Fabric) -> Verdict:
        self._say("comparing both clusters on Spark: offsets, bytes, timestamps, headers, visibility")
        with Watcher() as watcher:
            verdict = fabric.verify(on_progress=watcher.show)[_LINK]
        self._say(f"{format_count(verdict.records, 'record')} compared in {verdict.elapsed_s:.1f} s")
        return verdict

    def _ask_consumers(self, east: LocalCluster, west: LocalCluster) -> bool:
        """Whether consumers of another library see the same on both sides, at both isolation levels."""
        is_alike = True
        for isolation in oracle.ISOLATIONS:
            at_source, at_target = (
                oracle.view(cluster.bootstrap_servers, topics.TRANSACTIONS, isolation) for cluster in (east, west)
            )
            self._say(
                f"{isolation} consumers (librdkafka) of {topics.TRANSACTIONS.name} see "
                f"{format_count(at_source.records, 'record')} "
                f"in east and {'the same' if at_source == at_target else 'OTHERS'} in west"
            )
            is_alike = is_alike and at_source == at_target
        return is_alike

    def _latencies(self, probe: Probe, performance: Performance) -> dict[str, float | None]:
        """The quantiles for the table; what came before is told, as it was no steady state."""
        steady_at = performance.caught_up_at or 0.0
        steady, before = probe.latencies_ms(steady_at, time.time()), probe.latencies_ms(0.0, steady_at)
        self._say(
            f"latency, from a producer at east to a consumer at west: {format_count(len(steady), 'record')} of the "
            f"steady state in the table; while the rest was copied and a broker restarted, up to "
            f"{(before or [0.0])[-1] / 1000:.1f} s"
        )
        return {"p50 ms": _rounded(quantile(steady, 0.5)), "p99 ms": _rounded(quantile(steady, 0.99))}


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)
