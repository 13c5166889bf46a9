"""What a DataFrame or a stream reads, as its options state it: which topics, from where, and up to where. Pure.

Options, meanings and defaults are those of Spark's own Kafka source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from isthmus.errors import ConfigError
from isthmus.kafka.log.listoffsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, PartitionKey
from isthmus.model.text.patterns import NamePattern
from isthmus.spark.dataframes.options import CLUSTER_OPTIONS, GivenOptions, refused

MODES: Final = ("records", "batches")
_ISOLATION: Final = "kafka.isolation.level"
_ISOLATIONS: Final = {"read_committed": READ_COMMITTED, "read_uncommitted": READ_UNCOMMITTED}
_WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
_STRATEGY: Final = "startingOffsetsByTimestampStrategy"
_STRATEGIES: Final = ("error", "latest")
_SELECTING: Final = ("subscribe", "subscribePattern", "assign")
_FORMER: Final = "topics"
"""The older name of `subscribe`."""
_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "ranges")
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger",)
_KNOWN: Final = (
    *CLUSTER_OPTIONS,
    *_SELECTING,
    *_BATCH_ONLY,
    *_STREAM_ONLY,
    _FORMER,
    _ISOLATION,
    _STRATEGY,
    "mode",
    "includeHeaders",
    "failOnDataLoss",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
)
_WHOLE: Final = "Remove it: a partition is read in order, by one task (in a batch, by one task for each 64 MiB or so)."
_NO_GROUP: Final = "Remove it: Isthmus reads without a consumer group. Positions are in the checkpoint of the query."
_LATER: Final = "Remove it, and set the interval of the query's trigger."
_BROKERS: Final = "Name a cluster instead: options config (the path of an isthmus.yaml) and cluster (an alias in it)."
_UNSUPPORTED: Final = {
    "minPartitions": _WHOLE,
    "maxRecordsPerPartition": _WHOLE,
    "minOffsetsPerTrigger": _LATER,
    "maxTriggerDelay": _LATER,
    "groupIdPrefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "kafka.bootstrap.servers": _BROKERS,
    "bootstrap.servers": _BROKERS,
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """The selected topics: by their names, or by a pattern that whole names match, or single partitions."""

    names: tuple[str, ...] = ()
    pattern: NamePattern | None = None
    assigned: frozenset[PartitionKey] = frozenset()

    @property
    def asked(self) -> tuple[str, ...] | None:
        """The topics to ask a cluster for; `None` for all."""
        return None if self.pattern is not None else self.names

    def selects(self, topic: str, partition: int, *, is_internal: bool) -> bool:
        """Return whether a partition belongs to it; a pattern leaves out the internal topics of brokers."""
        if self.pattern is not None:
            return not is_internal and self.pattern.matches(topic)
        return (topic, partition) in self.assigned if self.assigned else topic in self.names


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: at `value` in all partitions, or at the value that `each` has for every one.

    Values are offsets, of which -1 means the end of the log and -2 its beginning, or with `is_time` ms since 1970.
    """

    value: int = EARLIEST
    each: Mapping[PartitionKey, int] | None = None
    is_time: bool = False
    option: str = ""

    def values(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, int]:
        """Return the value of each partition.

        :raises ConfigError: It names other partitions than these.
        """
        keys = set(partitions)
        if self.each is None:
            return dict.fromkeys(keys, self.value)
        for what, differing in (("lacks", keys - self.each.keys()), ("names", self.each.keys() - keys)):
            if differing:
                shown = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(differing))
                why = f"it {what} {shown}" + ("" if what == "lacks" else ", which is not read")
                raise refused(self.option, why, "Name exactly the partitions that are read; -2 is earliest, -1 latest.")
        return dict(self.each)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """All that options state about reading. `latest_if_late` is what becomes of partitions without a record as late as
    a starting timestamp: read from their end on, instead of an error. `offsets_max` bounds a micro-batch.
    """

    mode: str
    subscription: Subscription
    starting: Bound
    ending: Bound
    latest_if_late: bool
    offsets_max: int | None
    fails_on_loss: bool
    isolation: int

    @classmethod
    def of_batch(cls, options: GivenOptions) -> Self:
        """Read the options of a DataFrame.

        :raises ConfigError: They cannot be used.
        """
        settings = cls._of(options, other=_STREAM_ONLY, kind="a batch", default=EARLIEST)
        for bound, wrong in ((settings.starting, LATEST), (settings.ending, EARLIEST)):
            given = (bound.value,) if bound.each is None else bound.each.values()
            if not bound.is_time and wrong in given:
                word = "latest (-1)" if wrong == LATEST else "earliest (-2)"
                raise refused(bound.option, f"a batch would read nothing: {word}", "Name another offset.")
        return settings

    @classmethod
    def of_stream(cls, options: GivenOptions) -> Self:
        """Read the options of a stream.

        :raises ConfigError: They cannot be used.
        """
        return cls._of(options, other=_BATCH_ONLY, kind="a stream", default=LATEST)

    @classmethod
    def _of(cls, options: GivenOptions, *, other: Iterable[str], kind: str, default: int) -> Self:
        options.refuse_others(_KNOWN, _UNSUPPORTED)
        for name in other:
            if name in options:
                raise refused(name, f"{kind} has no such option", "Remove it.")
        strategy = _choice(options, _STRATEGY, _STRATEGIES)
        level = _choice(options, _ISOLATION, tuple(_ISOLATIONS))
        return cls(
            mode=mode_of(options),
            subscription=_subscription(options),
            starting=_read_bound(options, "starting", default),
            ending=_read_bound(options, "ending", LATEST),
            latest_if_late=strategy == "latest",
            offsets_max=options.number("maxOffsetsPerTrigger"),
            fails_on_loss=options.flag("failOnDataLoss", True),
            isolation=_ISOLATIONS[level],
        )


def mode_of(options: GivenOptions) -> str:
    """Return the mode of reading.

    :raises ConfigError: There is no such mode.
    """
    mode = options.text("mode", "records")
    if mode not in MODES:
        raise ConfigError(f"the data source has no mode {mode!r}", field="mode", hint=f"It has {', '.join(MODES)}.")
    return mode


def _choice(options: GivenOptions, name: str, choices: tuple[str, ...]) -> str:
    """Return the value of an option with these choices, of which the first is the default."""
    value = options.text(name, choices[0]).lower()
    if value not in choices:
        raise refused(name, f"{value!r} is none of {', '.join(choices)}")
    return value


def _subscription(options: GivenOptions) -> Subscription:
    given = [name for name in (*_SELECTING, _FORMER) if name in options]
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise refused("subscribe", f"exactly one of {', '.join(_SELECTING)} is needed, there is: {found}")
    (option,) = given
    if option == "assign":
        keys = frozenset(_read_assigned(options.document(option)))
        return Subscription(names=tuple(sorted({topic for topic, _ in keys})), assigned=keys)
    text = options.text(option)
    if option == "subscribePattern":
        try:
            return Subscription(pattern=NamePattern.split(f"/{text}/"))
        except ConfigError as error:
            raise refused(option, str(error)) from error
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(names):
        raise refused(option, "a topic has no name", "Separate the names of topics by single commas.")
    return Subscription(names=names)


def _read_assigned(document: Any) -> Iterator[PartitionKey]:
    form = 'Write it as {"topicA": [0, 1], "topicB": [2, 4]}.'
    if not isinstance(document, dict) or not document:
        raise refused("assign", "it names no topic", form)
    for topic, partitions in document.items():
        if not isinstance(partitions, list) or not partitions or not all(map(_is_number, partitions)):
            raise refused("assign", f"{topic} has no list of partitions", form)
        yield from ((topic, partition) for partition in partitions)


def _read_bound(options: GivenOptions, side: str, default: int) -> Bound:
    """Read where one side is: of several options, the first of these counts, as in Spark."""
    one_time, times, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if one_time in options:
        value = options.text(one_time)
        if not value.isdecimal():
            raise refused(one_time, f"{value!r} is no time", "Give it in ms since 1970.")
        return Bound(int(value), is_time=True, option=one_time)
    if times in options:
        return Bound(each=_by_partition(times, options.document(times), at_least=0), is_time=True, option=times)
    word = options.text(offsets).lower()
    if offsets not in options or word in _WORDS:
        return Bound(_WORDS.get(word, default), option=offsets)
    return Bound(each=_by_partition(offsets, options.document(offsets), at_least=EARLIEST), option=offsets)


def _by_partition(option: str, document: Any, *, at_least: int) -> dict[PartitionKey, int]:
    form = 'Write it as {"topicA": {"0": 23, "1": 47}}.'
    if not isinstance(document, dict) or not document:
        raise refused(option, "it names no topic", form)
    found: dict[PartitionKey, int] = {}
    for topic, values in document.items():
        if not isinstance(values, dict) or not all(map(str.isdecimal, values)):
            raise refused(option, f"{topic} has no numbers of partitions", form)
        for partition, value in values.items():
            if not _is_number(value, at_least):
                raise refused(option, f"{value!r} of {topic}-{partition} is no whole number from {at_least} on", form)
            found[topic, int(partition)] = value
    return found


def _is_number(value: object, at_least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= at_least
