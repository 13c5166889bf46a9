"""The story of KIP-986: zone A is lost, B takes over, C follows B though it was ahead, and A comes back and follows."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from demo import flights, load, oracle, topics
from demo.recovery.application import RECORDS_PER_S, Application
from demo.recovery.commands import Operator
from demo.recovery.proof import missing_at, numbers_in
from demo.stage import Stage
from demo.topics import KEEP, Topic
from isthmus.errors import HostError
from isthmus.local import LocalCluster
from isthmus.model.text.wording import format_count

_NOT_PROVEN: Final = 4
_TERM_S: Final = 180.0
_LOOK_S: Final = 0.2
_LAG: Final = 3_000
_GROUP: Final = "boards"
_SHARED: Final = "--map 'flights*' --group-map boards"
FLIGHTS: Final = Topic(name="flights", kind="lz4", partitions=2, codec="lz4", configs=KEEP)
"""What the application writes to."""
PLAN: Final = Topic(name="flights-plan", kind="lz4", partitions=2, codec="lz4", configs=KEEP)
"""What nobody writes to when the zone is lost: it does not diverge, and is not copied again."""
PLANNED: Final = 50_000
_CONFIGURATION: Final = """\
clusters:
  a: {{bootstrap_servers: "{a}"}}
  b: {{bootstrap_servers: "{b}"}}
  c: {{bootstrap_servers: "{c}"}}
spark:
  # What changes of limits is obeyed from the next lease on.
  lease_term_s: 10
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
        self._stage = Stage(stack)
        self._say = self._stage.say
        self._operator = Operator(stack, self._stage.folder, self._say)
        self._say("starting three clusters of a broker each: a, b and c")
        self._a, self._b, self._c = (self._stage.cluster(name, 1) for name in "abc")
        self._rows = flights.read()
        self._numbers = itertools.count()

    def perform(self) -> int:
        """Everything; returns the exit code: 0 only if nothing was lost beyond what failover had told.

        :raises IsthmusError: A step could not be done.
        :raises KafkaException: A cluster refused what a client of the demonstration asked for.
        """
        self._prepare()
        application = self._application(self._a)
        self._replicate()
        self._fall_behind()
        self._say("zone a is lost: its broker is killed while the application writes")
        self._a.broker(1).kill()
        application.stop(is_lost=True)
        self._say(f"a had acknowledged {format_count(len(application.acknowledged), 'record')}")
        is_told = self._take_over(application)
        successor = self._application(self._b)
        self._follow_the_new_one()
        self._come_back()
        successor.stop()
        self._operator.gives("wait b-c --for caught-up")
        self._operator.gives("wait b-a --for caught-up")
        return self._prove(application, successor, is_told=is_told)

    def _prepare(self) -> None:
        for cluster in (self._a, self._b, self._c):
            cluster.wait_until_ready()
        servers = self._a.bootstrap_servers
        topics.create(servers, (FLIGHTS, PLAN), 1)
        plan = load.Load(servers, PLAN)
        plan.send(self._rows[:PLANNED], load.carrier)
        plan.finish()
        _commit(servers, PLAN, 100)
        addresses = {each.name: each.bootstrap_servers for each in (self._a, self._b, self._c)}
        file = self._stage.folder / "isthmus.yaml"
        file.write_text(_CONFIGURATION.format(folder=self._stage.folder, **addresses))
        self._say(f"the application writes {RECORDS_PER_S:,} flights a second in zone a")

    def _application(self, cluster: LocalCluster) -> Application:
        application = Application(cluster.bootstrap_servers, FLIGHTS, self._rows, numbers=self._numbers)
        application.start()
        return application

    def _replicate(self) -> None:
        self._operator.gives(f"link create a-b --source a --target b {_SHARED}")
        self._operator.gives(f"link create a-c --source a --target c {_SHARED}")
        self._operator.runs("run")
        self._operator.gives("wait a-b --for lag<=2000")
        self._operator.gives("wait a-c --for lag<=2000")
        self._await(f"group {_GROUP} is carried", lambda: _positions(self._b, PLAN) == _positions(self._a, PLAN))

    def _fall_behind(self) -> None:
        self._operator.gives("link update a-b --set limits.bytes_per_s=2000")
        self._say("the line from a to b is slow from now on, that from a to c is not")
        self._await("b lags", lambda: _end(self._c, FLIGHTS) - _end(self._b, FLIGHTS) >= _LAG)

    def _take_over(self, application: Application) -> bool:
        at = time.monotonic()
        promotion = self._operator.asks("link failover a-b --yes")
        missing = missing_at(promotion, FLIGHTS, application.acknowledged, at)
        told = promotion["missing_records"]
        self._say(
            f"b takes over. Missing there by its word: {'unknown' if told is None else format_count(told, 'record')}, "
            f"and what came in the last {promotion['missing_seconds']:.1f} s. Of those that were acknowledged that is "
            f"{missing.told:,} and {missing.unheard:,}; {missing.untold:,} others"
        )
        return missing.untold == 0 and (told is None or missing.told <= told)

    def _follow_the_new_one(self) -> None:
        begun = self._stage.elapsed_s
        identity = _topic_id(self._c, PLAN)
        self._operator.asks("link failover a-c --yes")
        self._operator.gives(f"link create b-c --source b --target c {_SHARED}")
        self._say(self._recovered("b-c"))
        self._operator.gives("wait b-c --for lag<=2000")
        copied = "was not copied again" if _topic_id(self._c, PLAN) == identity else "WAS COPIED AGAIN"
        self._say(f"c follows b after {self._stage.elapsed_s - begun:.1f} s; {PLAN.name} {copied}")

    def _come_back(self) -> None:
        self._say("zone a comes back")
        self._a.broker(1).start()
        self._operator.gives(f"link create b-a --source b --target a {_SHARED}")
        self._say(self._recovered("b-a"))
        self._operator.gives("quarantine replay b-a flights --yes")

    def _recovered(self, link: str) -> str:
        found = self._operator.asks(f"link recover {link} --yes")
        (topic,) = found["topics"]
        return (
            f"{topic['topic']} is filled anew; {topic['quarantined_records']:,} records that b has not were set aside"
        )

    def _prove(self, application: Application, successor: Application, *, is_told: bool) -> int:
        held = numbers_in(self._b.bootstrap_servers, FLIGHTS)
        acknowledged = application.acknowledged.keys() | successor.acknowledged.keys()
        lost, twice = acknowledged - held.keys(), [number for number, count in held.items() if count > 1]
        self._say(
            f"acknowledged by a and b: {len(acknowledged):,} records; in b now: {len(acknowledged) - len(lost):,} of "
            f"them, {len(lost):,} missing, {len(twice):,} twice"
        )
        views = [
            {each.name: oracle.view(cluster.bootstrap_servers, each, "read_committed") for each in (FLIGHTS, PLAN)}
            for cluster in (self._a, self._b, self._c)
        ]
        is_alike = views[0] == views[1] == views[2]
        self._say(f"consumers (librdkafka) see {'the same' if is_alike else 'OTHER RECORDS'} in a, b and c")
        is_proven = is_told and is_alike and not lost and not twice
        self._say(
            "proven: nothing was missing beyond what failover had told, and nothing is now"
            if is_proven
            else "NOT PROVEN"
        )
        return 0 if is_proven else _NOT_PROVEN

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _TERM_S
        while not condition():
            if time.monotonic() > deadline:
                raise HostError(
                    f"it did not come to it that {what} within {_TERM_S:.0f} s", hint=self._operator.last_words()
                )
            time.sleep(_LOOK_S)
        self._say(what)


def _admin(cluster: LocalCluster) -> AdminClient:
    """To be kept until its answers are there: without their client they never come."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def _commit(bootstrap_servers: str, topic: Topic, offset: int) -> None:
    """Have the group stand there. A coordinator that just begins refuses it for a while."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    wanted = [TopicPartition(topic.name, partition, offset) for partition in range(topic.partitions)]
    deadline = time.monotonic() + _TERM_S
    while time.monotonic() < deadline:
        (asked,) = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(_GROUP, wanted)]).values()
        with suppress(KafkaException):
            if not any(each.error for each in asked.result(_TERM_S).topic_partitions):
                return
        time.sleep(_LOOK_S)
    raise HostError(f"group {_GROUP} could not commit", hint="The machine is very busy: end other work and try again.")


def _positions(cluster: LocalCluster, topic: Topic) -> list[int]:
    asked = [TopicPartition(topic.name, partition) for partition in range(topic.partitions)]
    admin = _admin(cluster)
    (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(_GROUP, asked)]).values()
    return [each.offset for each in found.result(_TERM_S).topic_partitions]


def _end(cluster: LocalCluster, topic: Topic) -> int:
    """All partitions' ends together."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "demo", "log_level": 0})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic.name, p), _TERM_S) for p in range(topic.partitions)]
        return sum(end for _, end in ends)
    finally:
        consumer.close()


def _topic_id(cluster: LocalCluster, topic: Topic) -> str:
    admin = _admin(cluster)
    (found,) = admin.describe_topics(TopicCollection([topic.name])).values()
    return str(found.result(_TERM_S).topic_id)
