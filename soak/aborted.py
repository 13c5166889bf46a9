"""Small transactions, half of them aborted, while brokers of a target that verifies transactions restart or are killed.

    python -m soak.aborted --seed 1 --seeds 20 --faults 10
    python -m soak.aborted --whole --seed 1 --seeds 20 --faults 10

An engine copies them as a lease would; now and then it is cut off, and another one goes on. What counts is how many
lanes stopped, and whether consumers see the same.

Where transactions are to be whole, brokers of the source fail as well, and a second engine copies the same partitions
into another topic, until it is given up in the middle: what is open there is aborted, as a failover does it. No
consumer at read_committed may ever see a part of a transaction in a partition, there or here (I8).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.engine.engine import Engine
from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.kafka.transactions.aborting import abort_transactions
from isthmus.kafka.transactions.producers import allocate_producer
from isthmus.local import LocalCluster
from isthmus.model.kafka.transactions import AbortedPolicy
from isthmus.model.lane import Lane, LaneReport
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.topics.aborted import VERIFICATION
from soak.judge.evidence import Log, PartitionKey
from soak.judge.reading import Ends, Ruler, read_logs

PARTITIONS: Final = 3
_WRITERS: Final = 3
_RECORDS_MAX: Final = 12
_PAUSE_S: Final = 0.05
_TERM_S: Final = 180.0
_CALL_S: Final = 60.0
_LOOK_S: Final = 0.05
_PEEK_S: Final = 0.02
_CUT_OFF: Final = 0.3
_DAY_MS: Final = 86_400_000
_LET_GO_S: Final = 2.0
"""A broker may take what was on its way to it for so long after an engine has ended."""


class Writing:
    """Producers whose transactions overlap, and one without any, until it is left."""

    def __init__(self, servers: str, topic: str, chance: random.Random) -> None:
        self._servers, self._topic, self._chance = servers, topic, chance
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=topic)
        self._begun = 0

    def __enter__(self) -> Writing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._write()
        except Exception as error:  # noqa: BLE001 - whoever waits for the thread raises it
            self._failure = error

    def _write(self) -> None:
        keys: dict[int, str] = {}
        writers = [self._producer(f"{self._topic}-{number}") for number in range(_WRITERS)]
        plain, open_ones = self._producer(None), set[int]()
        while not self._over.wait(self._chance.uniform(0.0, _PAUSE_S)):
            number = self._chance.randrange(_WRITERS + 1)
            try:
                if number == _WRITERS:
                    self._send(plain, None)
                elif number in open_ones and self._chance.random() < 0.5:
                    self._end(writers[number])
                    open_ones.discard(number)
                else:
                    if number not in open_ones:
                        writers[number].begin_transaction()
                        open_ones.add(number)
                        self._begun += 1
                        keys[number] = f"transaction {self._begun}"
                    self._send(writers[number], keys[number])
            except KafkaException:
                # A broker was killed. However that transaction ends, the next producer of its id begins another.
                open_ones.discard(number)
                if number < _WRITERS:
                    writers[number] = self._again(number)
        for number in open_ones:
            try:
                self._end(writers[number])
            except KafkaException:
                self._again(number)

    def _again(self, number: int) -> Producer:
        """A new producer of the same transactional id: what the one before has open is aborted."""
        deadline = time.monotonic() + _TERM_S
        while True:
            try:
                return self._producer(f"{self._topic}-{number}")
            except KafkaException:
                if time.monotonic() > deadline:
                    raise

    def _producer(self, transactional_id: str | None) -> Producer:
        settings: dict[str, Any] = {"bootstrap.servers": self._servers, "linger.ms": 1, "log_level": 0}
        if transactional_id is None:
            return Producer(settings)
        # A machine that is busy may stand still for longer than librdkafka's minute.
        producer = Producer({**settings, "transactional.id": transactional_id, "transaction.timeout.ms": 900_000})
        producer.init_transactions(_CALL_S)
        return producer

    def _send(self, producer: Producer, key: str | None) -> None:
        """Records of one transaction have its key."""
        partition = self._chance.randrange(PARTITIONS)
        for _ in range(self._chance.randint(1, _RECORDS_MAX)):
            producer.produce(self._topic, partition=partition, key=key, value=self._chance.randbytes(60))
        producer.flush(_CALL_S)

    def _end(self, producer: Producer) -> None:
        is_aborted = self._chance.random() < 0.5
        (producer.abort_transaction if is_aborted else producer.commit_transaction)(_CALL_S)


class Peeking:
    """Looks again and again how far consumers at read_committed get at the target, until it is left: for each place by
    which high watermark at most, as told before and by the next look.
    """

    def __init__(self, servers: str, topic: str) -> None:
        self.ends: dict[PartitionKey, dict[int, int]] = {(topic, partition): {} for partition in range(PARTITIONS)}
        self._before: dict[PartitionKey, Ends] = {}
        self._ruler = Ruler(servers)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"peeking at {topic}")

    def __enter__(self) -> Peeking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(_PEEK_S):
            # A broker that is away tells nothing.
            with contextlib.suppress(KafkaException):
                for key, found in self._ruler.ends(list(self.ends)).items():
                    before, ends = self._before.get(key), self.ends[key]
                    self._before[key] = found
                    if before is not None:
                        high = max(before.high, found.high)
                        ends[before.stable] = min(high, ends.get(before.stable, high))


def torn(source: Log, ends: Mapping[int, int]) -> list[tuple[int, int]]:
    """Of which committed transactions consumers at read_committed saw a part when they got as far as these ends: where
    each begins, and the end. By each end stands the high watermark of that time.

    A transaction that has ended is hidden from where another one begins that is open still, at the source too.
    """
    spans: dict[bytes, tuple[int, int]] = {}
    for record in source.records:
        if record.key is not None:
            first, _ = spans.get(record.key, (record.offset, 0))
            spans[record.key] = first, record.offset
    begins = {first for first, _ in spans.values()}
    return [
        (first, end)
        for first, last in spans.values()
        if first in source.visible
        for end, high in ends.items()
        if first < end <= last and not (end in begins and last + 1 < high)
    ]


class Copying:
    """A link's engine over three lanes, into a topic of the same name or another (`into`). Another engine takes its
    place when it is cut off.
    """

    def __init__(
        self,
        source: LocalCluster,
        target: LocalCluster,
        topic: str,
        aborted: AbortedPolicy,
        *,
        is_whole: bool,
        into: str = "",
    ) -> None:
        self.topic, self.into, self._aborted, self._is_whole = topic, into or topic, aborted, is_whole
        self._source, self._target = source, target
        self._producer: ProducerIdentity | None = None
        self._engine: Engine | None = None
        self._cut_off = asyncio.Event()

    @property
    def reports(self) -> list[LaneReport]:
        return [] if self._engine is None else self._engine.lanes.reports()

    @property
    def stopped(self) -> list[LaneReport]:
        """The lanes that ended for good."""
        return [report for report in self.reports if report.state.is_terminal]

    def cut_off(self) -> None:
        """End the engine with whatever it has on its way."""
        self._cut_off.set()

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        """Copy meanwhile."""
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            # All brokers may be away for a moment.
            with contextlib.suppress(ClusterError):
                await self._copy()
            await asyncio.sleep(_LOOK_S)

    async def _copy(self) -> None:
        """Copy until it is cut off."""
        self._cut_off.clear()
        async with Client(self._source.cluster()) as source, Client(self._target.cluster()) as target:
            if self._producer is None:
                ids = [await allocate_producer(target) for _ in range(2)]
                self._producer = ProducerIdentity(producer_id=ids[0], marker_producer_id=ids[1])
            link = f"soak {self.into}"
            engine = Engine(source=source, target=target, producer=self._producer, link=link, expiration_ms=_DAY_MS)
            await engine.start(await self._lanes(source, target))
            self._engine = engine
            try:
                await self._cut_off.wait()
            finally:
                await engine.stop(drain_s=0.0)

    async def _lanes(self, source: Client, target: Client) -> list[Lane]:
        here = (await source.metadata([self.topic])).topics[self.topic]
        there = (await target.metadata([self.into])).topics[self.into]
        return [
            Lane(
                source_topic=SourceTopic(self.topic),
                source_topic_id=here.topic_id,
                target_topic=TargetTopic(self.into),
                target_topic_id=there.topic_id,
                partition=partition,
                aborted=self._aborted,
                is_whole=self._is_whole,
            )
            for partition in range(PARTITIONS)
        ]

    async def until_beyond(self, ends: Sequence[int], what: str) -> None:
        """Wait until every lane has copied what lies before these offsets, or has stopped.

        :raises TimeoutError: They have not.
        """
        deadline = time.monotonic() + _TERM_S
        while True:
            reports = self.reports
            if reports and all(r.state.is_terminal or r.position >= ends[r.key.partition] for r in reports):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.into}: {what}: {reports}")
            await asyncio.sleep(_LOOK_S)


async def strike(cluster: LocalCluster, topic: str, copyings: Sequence[Copying], chance: random.Random) -> None:
    """Restart or kill a broker while lanes are at work, and wait until all replicas are in sync again."""
    await asyncio.sleep(chance.uniform(0.0, 1.5))
    broker = chance.choice(cluster.brokers)
    await asyncio.to_thread(broker.kill if chance.random() < 0.5 else broker.terminate)
    for copying in copyings:
        if chance.random() < _CUT_OFF:
            copying.cut_off()
    await asyncio.sleep(chance.uniform(0.0, 3.0))
    await asyncio.to_thread(broker.start)
    deadline = time.monotonic() + _TERM_S
    async with Client(cluster.cluster()) as client:
        while True:
            found = (await client.metadata([topic])).topics[topic].partitions
            if len(found) == PARTITIONS and all(len(p.isr) == len(cluster.brokers) for p in found):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: not in sync: {found}")
            await asyncio.sleep(_LOOK_S)


class GivenUp:
    """A second copy of the same partitions, until it is given up."""

    def __init__(self, copying: Copying, target: LocalCluster) -> None:
        self.copying, self._target = copying, target
        self._peeking = Peeking(target.bootstrap_servers, copying.into)
        self._stopped: list[LaneReport] = []
        self.aborted = 0

    @asynccontextmanager
    async def until(self, moment: asyncio.Event) -> AsyncIterator[None]:
        """Copy until then; then abort what is open. Nobody sees that before he asks what came of it."""
        task = asyncio.create_task(self._run(moment))
        try:
            yield
            moment.set()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, moment: asyncio.Event) -> None:
        with self._peeking:
            async with self.copying.going_on():
                await moment.wait()
                self._stopped = self.copying.stopped
        await asyncio.sleep(_LET_GO_S)
        deadline = time.monotonic() + _TERM_S
        while True:
            try:
                async with Client(self._target.cluster()) as client:
                    self.aborted += len(await abort_transactions(client, [self.copying.into], mirrored=True))
                    ends = await log_ranges(client, [(self.copying.into, p) for p in range(PARTITIONS)])
                if len(ends.values) == PARTITIONS and all(log.stable_end == log.end for log in ends.values.values()):
                    return
            except ClusterError:
                # A broker is away. Whoever fails over gives the command again.
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_LOOK_S)

    async def wrong(self, logs: Mapping[PartitionKey, Log]) -> list[str]:
        """What is wrong with it, beside these logs of the source."""
        keys = [(self.copying.into, partition) for partition in range(PARTITIONS)]
        copies = await asyncio.to_thread(read_logs, self._target.bootstrap_servers, keys)
        found = [f"{r.key} {r.state}: {r.problem and r.problem.message}" for r in self._stopped]
        for (topic, partition), copy in copies.items():
            log = logs[self.copying.topic, partition]
            peeked = self._peeking.ends[topic, partition]
            if problem := parted(log, copy, max(peeked, default=0)):
                found.append(f"{topic}-{partition}: {problem}")
            if seen_torn := torn(log, peeked):
                found.append(f"{topic}-{partition}: seen in part: {seen_torn[:5]}")
        return found


async def one(
    source: LocalCluster,
    target: LocalCluster,
    seed: int,
    faults: int,
    aborted: AbortedPolicy,
    *,
    is_whole: bool = False,
) -> list[str]:
    """One run; what is wrong, if anything is. That a transaction is seen in part counts where they are to be whole."""
    chance, topic = random.Random(seed), f"aborted-{seed}"
    _create(source, topic, replicas=len(source.brokers))
    copying = Copying(source, target, topic, aborted, is_whole=is_whole)
    given_up = GivenUp(Copying(source, target, topic, aborted, is_whole=True, into=f"{topic}-given-up"), target)
    for name in [copying.into, *([given_up.copying.into] if is_whole else [])]:
        _create(target, name, replicas=len(target.brokers))
    peeking, moment = Peeking(target.bootstrap_servers, topic), asyncio.Event()
    middle, copyings = chance.randrange(max(faults, 1)), [copying, *([given_up.copying] if is_whole else [])]
    async with copying.going_on(), given_up.until(moment) if is_whole else contextlib.nullcontext():
        with Writing(source.bootstrap_servers, topic, random.Random(f"writing {seed}")), peeking:
            for number in range(faults):
                before = [max(report.position, 0) for report in copying.reports] or [0] * PARTITIONS
                await copying.until_beyond([position + 20 for position in before], f"before fault {number}")
                if number == middle:
                    # In the midst of the fault.
                    asyncio.get_running_loop().call_later(chance.uniform(0.0, 4.0), moment.set)
                cluster = chance.choice([source, target]) if is_whole and len(source.brokers) > 1 else target
                await strike(cluster, topic, copyings, chance)
        logs = await asyncio.to_thread(_ended, source.bootstrap_servers, topic)
        await copying.until_beyond([logs[topic, p].high for p in range(PARTITIONS)], "at the end")
        stopped = [f"{r.key} {r.state}: {r.problem and r.problem.message}" for r in copying.stopped]
    copies = await asyncio.to_thread(read_logs, target.bootstrap_servers, list(logs))
    wrong = [f"{topic}-{p}: {found}" for (_, p), log in logs.items() if (found := difference(log, copies[topic, p]))]
    seen_torn = [each for key, log in logs.items() for each in torn(log, peeking.ends[key])]
    if is_whole:
        wrong += [f"seen in part: {seen_torn[:5]}"] if seen_torn else []
        wrong += await given_up.wrong(logs)
    aborts = sum(len(log.records) - len(log.visible) for log in logs.values())
    kept = sum(len(log.records) - len(log.visible) for log in copies.values())
    records = sum(len(log.records) for log in logs.values())
    _say(
        f"seed {seed}: {faults} faults, {records} records, {aborts} aborted, {kept} of them copied, "
        f"{len(seen_torn)} times a transaction was seen in part, {given_up.aborted} aborted when a copy was given up: "
        f"{stopped + wrong}"
    )
    return [*stopped, *wrong]


def _ended(servers: str, topic: str) -> dict[PartitionKey, Log]:
    """The source's logs, once the last control records are there: a coordinator answers before it has written them."""
    deadline = time.monotonic() + _TERM_S
    while True:
        logs = read_logs(servers, [(topic, partition) for partition in range(PARTITIONS)])
        if all(log.stable == log.high for log in logs.values()):
            return logs
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: a transaction does not end")
        time.sleep(_LOOK_S)


def parted(source: Log, target: Log, seen_end: int) -> str:
    """What is wrong with a copy that was given up at some time, after consumers at read_committed got as far as
    `seen_end`; "" for nothing.
    """
    if target.stable != target.high:
        return f"a transaction is open: it is seen up to {target.stable}, and ends at {target.high}"
    given = {record.offset: record for record in source.records}
    strange = [record.offset for record in target.records if given.get(record.offset) != record]
    if strange:
        return f"the records at {strange[:5]} are not the source's"
    transactions: dict[bytes, set[int]] = {}
    for record in source.records:
        if record.offset in source.visible and record.key is not None:
            transactions.setdefault(record.key, set()).add(record.offset)
    copied = {record.offset for record in target.records if record.key is None}
    copied |= {
        offset for each in transactions.values() if each <= target.visible or max(each) < seen_end for offset in each
    }
    strange = sorted(copied ^ target.visible)
    return f"others are visible than plain records and whole transactions: {strange[:5]}" if strange else ""


def difference(source: Log, target: Log) -> str:
    """In which way two logs are not the same to consumers at read_committed; "" if they are."""
    if (source.start, source.stable, source.high) != (target.start, target.stable, target.high):
        return (
            f"the ends are {target.start, target.stable, target.high}, not {source.start, source.stable, source.high}"
        )
    given = {record.offset: record for record in source.records}
    strange = [record.offset for record in target.records if given.get(record.offset) != record]
    if strange:
        return f"the records at {strange[:5]} are not the source's"
    return (
        "" if source.visible == target.visible else f"others are visible: {sorted(source.visible ^ target.visible)[:5]}"
    )


def _create(cluster: LocalCluster, topic: str, *, replicas: int) -> None:
    new = NewTopic(topic, PARTITIONS, replicas, config={"min.insync.replicas": str(max(replicas - 1, 1))})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    admin.create_topics([new])[topic].result(_CALL_S)


def _say(what: str) -> None:
    print(what, flush=True)  # noqa: T201


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the runs; 0 when no lane stopped and everything was the same."""
    parser = argparse.ArgumentParser(prog="soak.aborted", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1, help="what follows from it: transactions and faults")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="so many seeds, from --seed on")
    parser.add_argument("--faults", type=int, default=10, help="so many brokers fail, one after another")
    policies = [str(policy) for policy in AbortedPolicy]
    parser.add_argument("--whole", action="store_true", help="transactions are to be whole: brokers do not verify them")
    parser.add_argument("--aborted", choices=policies, default="auto", help="what becomes of aborted records")
    given = parser.parse_args(arguments)
    wrong: list[str] = []
    properties = {VERIFICATION: "false"} if given.whole else {}
    with (
        LocalCluster.start("source", brokers=3 if given.whole else 1, heap_mb=256) as source,
        LocalCluster.start("target", brokers=3, heap_mb=256, properties=properties) as target,
    ):
        for seed in range(given.seed, given.seed + given.seeds):
            policy = AbortedPolicy(given.aborted)
            wrong += asyncio.run(one(source, target, seed, given.faults, policy, is_whole=given.whole))
    _say(f"{given.seeds} runs, {given.seeds * given.faults} faults, {len(wrong)} lanes stopped or differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
