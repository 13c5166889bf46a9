"""Settings of brokers that decide what is lost and what has to wait when one of them fails."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Final, NamedTuple

SHOWN_SETTINGS: Final = (
    "auto.leader.rebalance.enable",
    "default.replication.factor",
    "min.insync.replicas",
    "offsets.commit.timeout.ms",
    "offsets.retention.minutes",
    "offsets.topic.replication.factor",
    "replica.lag.time.max.ms",
    "unclean.leader.election.enable",
)


class BrokerSetting(NamedTuple):
    """A value that a setting has, and the brokers that have it."""

    name: str
    value: str
    brokers: tuple[int, ...]


def shared_settings(reported: Mapping[int, Mapping[str, str]]) -> tuple[BrokerSetting, ...]:
    """The values of all brokers, a line for each value that a setting has, by name; `reported` is by broker."""
    brokers: dict[tuple[str, str], list[int]] = defaultdict(list)
    for node, values in sorted(reported.items()):
        for name, value in values.items():
            brokers[name, value].append(node)
    return tuple(BrokerSetting(name, value, tuple(nodes)) for (name, value), nodes in sorted(brokers.items()))
