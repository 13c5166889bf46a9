"""Which Kafka a broker is, by what it offers."""

from __future__ import annotations

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from isthmus.model.kafka.releases import Release, Releases, hull, releases_of

# What brokers of these releases said, as far as it is looked at: 3.9.1 and 2.8.2 with ZooKeeper, the others in KRaft.
KAFKA_4_4 = {0: (0, 13), 1: (4, 18), 2: (1, 11), 11: (0, 9), 24: (0, 5), 28: (0, 6), 29: (1, 3), 35: (1, 5)}
KAFKA_4_3 = {**KAFKA_4_4, 28: (0, 5)}
KAFKA_3_9 = {0: (0, 11), 1: (0, 17), 2: (0, 9), 4: (0, 7), 11: (0, 9), 24: (0, 5), 28: (0, 4), 29: (0, 3), 35: (0, 4)}
KAFKA_2_8 = {0: (0, 9), 1: (0, 12), 2: (0, 6), 4: (0, 5), 11: (0, 7), 24: (0, 3), 28: (0, 3), 29: (0, 2), 35: (0, 2)}
LEVELS = {"3.3": 7, "3.4": 8, "3.5": 11, "3.6": 14, "3.7": 19, "3.8": 20, "3.9": 21, "4.0": 25, "4.1": 27, "4.2": 29}
Offered = dict[int, tuple[int, int]]


@pytest.mark.parametrize(
    ("offered", "level", "told"),
    [
        (KAFKA_4_4, 33, "4.4"),
        (KAFKA_4_3, 30, "4.3"),
        (KAFKA_3_9, None, "3.9"),
        (KAFKA_2_8, None, "2.8"),
    ],
)
def test_release_of_a_real_broker(offered: Offered, level: int | None, told: str) -> None:
    """Brokers are told apart down to the minor release."""
    assert str(releases_of(offered, metadata_level_max=level)) == told


@pytest.mark.parametrize("release", [release for release in BROKER_API_VERSIONS if release >= (2, 8)])
def test_every_release_is_told_apart(release: tuple[int, int]) -> None:
    """By the messages of brokers with ZooKeeper, and with the levels of the metadata in KRaft."""
    told = ".".join(map(str, release))
    level = LEVELS.get(told)
    if release < (4, 0):
        assert str(releases_of(BROKER_API_VERSIONS[release], metadata_level_max=None)) == told
    if level is not None:
        in_kraft = {key: span for key, span in BROKER_API_VERSIONS[release].items() if key != 4}
        assert str(releases_of(in_kraft, metadata_level_max=level)) == told


def test_what_cannot_be_told_apart_is_not() -> None:
    """In KRaft 3.3 and 3.4 offer the same messages, and only the level of the metadata differs."""
    offered = {key: span for key, span in BROKER_API_VERSIONS[3, 3].items() if key != 4}
    assert str(releases_of(offered, metadata_level_max=None)) == "3.3 or 3.4"
    assert str(releases_of(offered, metadata_level_max=8)) == "3.4"


def test_contradicting_signs_are_both_told() -> None:
    """A broker that offers levels which are not final yet is no newer release for certain."""
    assert str(releases_of(KAFKA_4_3, metadata_level_max=31)) == "4.3 or 4.4"
    assert str(releases_of(KAFKA_4_3, metadata_level_max=25)) == "4.0 to 4.3"


def test_releases_that_are_not_known_yet_are_newer() -> None:
    """Nothing is claimed about what came after the newest release known, nor about what came before the oldest."""
    assert str(releases_of(KAFKA_4_4, metadata_level_max=34)) == "4.4 or newer"
    assert str(releases_of(KAFKA_4_4, metadata_level_max=None)) == "4.4 or newer"
    assert str(releases_of({0: (0, 8)}, metadata_level_max=None)) == "2.7 or older"


def test_brokers_of_several_releases() -> None:
    """Of brokers that differ the oldest and the newest release are told."""
    old, new = Releases(Release(3, 9), Release(3, 9)), Releases(Release(4, 4), Release(4, 4), is_open=True)
    assert str(hull([new, old])) == "3.9 to 4.4 or newer"
    assert str(hull([old, old])) == "3.9"
