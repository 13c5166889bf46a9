"""Small transactions, half of them aborted, while brokers of a target that verifies transactions restart or are killed.

    python -m soak.aborted --seed 1 --seeds 20 --faults 10

An engine copies them as a lease would; now and then it is cut off, and another one goes on. What counts is how many
lanes stopped, and whether consumers see the same.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from isthmus.lane.engine import Engine
from isthmus.lane.producer import ProducerIdentity, allocate_producer
from isthmus.local import LocalCluster
from isthmus.model.lane import Lane, LaneReport
from isthmus.model.naming import SourceTopic, TargetTopic
from isthmus.model.transactions import AbortedPolicy
from isthmus.wire.client import Client
from soak.judge.evidence import Log
from soak.judge.reading import read_logs

PARTITIONS: Final = 3
_WRITERS: Final = 3
_RECORDS_MAX: Final = 12
_PAUSE_S: Final = 0.05
_TERM_S: Final = 180.0
_CALL_S: Final = 60.0
_LOOK_S: Final = 0.05
_CUT_OFF: Final = 0.3
_DAY_MS: Final = 86_400_000


class Writing:
    """Producers whose transactions overlap, and one without any, until it is left."""

    def __init__(self, servers: str, topic: str, chance: random.Random) -> None:
        self._servers, self._topic, self._chance = servers, topic, chance
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=topic)

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
        writers = [self._producer(f"{self._topic}-{number}") for number in range(_WRITERS)]
        plain, open_ones = self._producer(None), set[int]()
        while not self._over.wait(self._chance.uniform(0.0, _PAUSE_S)):
            number = self._chance.randrange(_WRITERS + 1)
            if number == _WRITERS:
                self._send(plain)
            elif number in open_ones and self._chance.random() < 0.5:
                self._end(writers[number])
                open_ones.discard(number)
            else:
                if number not in open_ones:
                    writers[number].begin_transaction()
                    open_ones.add(number)
                self._send(writers[number])
        for number in open_ones:
            self._end(writers[number])

    def _producer(self, transactional_id: str | None) -> Producer:
        settings: dict[str, Any] = {"bootstrap.servers": self._servers, "linger.ms": 1, "log_level": 0}
        if transactional_id is None:
            return Producer(settings)
        # A machine that is busy may stand still for longer than librdkafka's minute.
        producer = Producer({**settings, "transactional.id": transactional_id, "transaction.timeout.ms": 900_000})
        producer.init_transactions(_CALL_S)
        return producer

    def _send(self, producer: Producer) -> None:
        partition = self._chance.randrange(PARTITIONS)
        for _ in range(self._chance.randint(1, _RECORDS_MAX)):
            producer.produce(self._topic, partition=partition, value=self._chance.randbytes(60))
        producer.flush(_CALL_S)

    def _end(self, producer: Producer) -> None:
        is_aborted = self._chance.random() < 0.5
        (producer.abort_transaction if is_aborted else producer.commit_transaction)(_CALL_S)


class Copying:
    """A link's engine over three lanes. Another one takes its place when it is cut off."""

    def __init__(self, source: LocalCluster, target: LocalCluster, topic: str, aborted: AbortedPolicy) -> None:
        self.topic, self._aborted = topic, aborted
        self._source, self._target = source, target
        self._producer: ProducerIdentity | None = None
        self._engine: Engine | None = None
        self._cut_off = asyncio.Event()

    @property
    def reports(self) -> list[LaneReport]:
        return [] if self._engine is None else self._engine.reports()

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
            self._cut_off.clear()
            async with Client(self._source.cluster()) as source, Client(self._target.cluster()) as target:
                if self._producer is None:
                    ids = [await allocate_producer(target) for _ in range(2)]
                    self._producer = ProducerIdentity(producer_id=ids[0], marker_producer_id=ids[1])
                engine = Engine(
                    source=source, target=target, producer=self._producer, link="soak", expiration_ms=_DAY_MS
                )
                await engine.start(await self._lanes(source, target))
                self._engine = engine
                try:
                    await self._cut_off.wait()
                finally:
                    await engine.stop(drain_s=0.0)

    async def _lanes(self, source: Client, target: Client) -> list[Lane]:
        here, there = [(await client.metadata([self.topic])).topics[self.topic] for client in (source, target)]
        return [
            Lane(
                source_topic=SourceTopic(self.topic),
                source_topic_id=here.topic_id,
                target_topic=TargetTopic(self.topic),
                target_topic_id=there.topic_id,
                partition=partition,
                aborted=self._aborted,
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
                raise TimeoutError(f"{self.topic}: {what}: {reports}")
            await asyncio.sleep(_LOOK_S)


async def strike(target: LocalCluster, copying: Copying, chance: random.Random) -> None:
    """Restart or kill a broker while a lane is at work, and wait until three replicas are in sync again."""
    await asyncio.sleep(chance.uniform(0.0, 1.5))
    broker = chance.choice(target.brokers)
    await asyncio.to_thread(broker.kill if chance.random() < 0.5 else broker.terminate)
    if chance.random() < _CUT_OFF:
        copying.cut_off()
    await asyncio.sleep(chance.uniform(0.0, 3.0))
    await asyncio.to_thread(broker.start)
    deadline = time.monotonic() + _TERM_S
    async with Client(target.cluster()) as client:
        while True:
            found = (await client.metadata([copying.topic])).topics[copying.topic].partitions
            if len(found) == PARTITIONS and all(len(p.isr) == len(target.brokers) for p in found):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{copying.topic}: not in sync: {found}")
            await asyncio.sleep(_LOOK_S)


async def one(source: LocalCluster, target: LocalCluster, seed: int, faults: int, aborted: AbortedPolicy) -> list[str]:
    """One run; what is wrong, if anything is."""
    chance, topic = random.Random(seed), f"aborted-{seed}"
    _create(source, topic, replicas=1)
    _create(target, topic, replicas=len(target.brokers))
    copying = Copying(source, target, topic, aborted)
    async with copying.going_on():
        with Writing(source.bootstrap_servers, topic, random.Random(f"writing {seed}")):
            for number in range(faults):
                before = [max(report.position, 0) for report in copying.reports] or [0] * PARTITIONS
                await copying.until_beyond([position + 20 for position in before], f"before fault {number}")
                await strike(target, copying, chance)
        logs = await asyncio.to_thread(read_logs, source.bootstrap_servers, [(topic, p) for p in range(PARTITIONS)])
        await copying.until_beyond([logs[topic, p].high for p in range(PARTITIONS)], "at the end")
        stopped = [f"{r.key} {r.state}: {r.problem and r.problem.message}" for r in copying.stopped]
    copies = await asyncio.to_thread(read_logs, target.bootstrap_servers, list(logs))
    wrong = [f"{topic}-{p}: {found}" for (_, p), log in logs.items() if (found := difference(log, copies[topic, p]))]
    aborts = sum(len(log.records) - len(log.visible) for log in logs.values())
    kept = sum(len(log.records) - len(log.visible) for log in copies.values())
    records = sum(len(log.records) for log in logs.values())
    _say(
        f"seed {seed}: {faults} faults, {records} records, {aborts} aborted, {kept} of them copied: {stopped or wrong}"
    )
    return [*stopped, *wrong]


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
    parser.add_argument("--faults", type=int, default=10, help="so many brokers of the target fail, one after another")
    policies = [str(policy) for policy in AbortedPolicy]
    parser.add_argument("--aborted", choices=policies, default="auto", help="what becomes of aborted records")
    given = parser.parse_args(arguments)
    wrong: list[str] = []
    with (
        LocalCluster.start("source", brokers=1, heap_mb=256) as source,
        LocalCluster.start("target", brokers=3, heap_mb=256) as target,
    ):
        for seed in range(given.seed, given.seed + given.seeds):
            wrong += asyncio.run(one(source, target, seed, given.faults, AbortedPolicy(given.aborted)))
    _say(f"{given.seeds} runs, {given.seeds * given.faults} faults, {len(wrong)} lanes stopped or differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
