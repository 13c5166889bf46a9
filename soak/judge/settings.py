"""Whether topics have the same settings and as many partitions on both sides, but for what each cluster decides."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from soak.judge.evidence import Violation
from soak.judge.timeline import Sufferings

_OF_EACH_CLUSTER: Final = re.compile(
    r"(leader|follower)\.replication\.throttled\.replicas|min\.insync\.replicas|unclean\.leader\.election\.enable"
    # Batches pass with the codecs and the timestamps they have.
    r"|remote\..*|local\.retention\..*|compression\..*|message\.timestamp\..*"
)
_POLICY: Final = "cleanup.policy"
_LARGEST: Final = "max.message.bytes"


class Setting(NamedTuple):
    """A value that counts, and whether it was given to the topic itself."""

    value: str | None
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a topic is like at one side, without its records."""

    partitions: int
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def own(self, name: str) -> str | None:
        """What was given to the topic itself."""
        found = self.settings.get(name)
        return found.value if found is not None and found.is_own else None

    def effective(self, name: str) -> str | None:
        """What counts for the topic."""
        found = self.settings.get(name)
        return None if found is None else found.value


Shapes = Mapping[str, Shape]
"""The topics of one side, by their names at the source."""


def differences(here: Shape, there: Shape) -> list[str]:
    """What is not at the target as it is at the source, though it should be."""
    found: list[str] = []
    if here.partitions != there.partitions:
        found.append(f"partitions: {here.partitions} at the source, {there.partitions} at the target")
    for name in sorted(here.settings.keys() | there.settings.keys()):
        if _OF_EACH_CLUSTER.fullmatch(name):
            continue
        if name == _POLICY:
            ours, theirs = here.effective(name), there.effective(name)
        elif name == _LARGEST:
            # The target may take larger batches, and no smaller ones.
            if int(there.effective(name) or 0) >= int(here.effective(name) or 0):
                continue
            ours, theirs = here.effective(name), there.effective(name)
        elif here.own(name) is not None:
            # What the target's brokers have by default needs not be said once more.
            ours, theirs = here.own(name), there.effective(name)
        else:
            ours, theirs = None, there.own(name)
        if ours != theirs:
            found.append(f"{name}: {ours} at the source, {theirs} at the target")
    return found


def i19_convergence(here: Shapes, there: Shapes, sufferings: Sufferings) -> Iterator[Violation]:
    """In the end each topic is at the target as it is at the source; not those that faults have done something to."""
    for topic in sorted(here.keys() & there.keys()):
        if not sufferings.of(topic) and (found := differences(here[topic], there[topic])):
            message = f"{len(found)} settings differ when all was quiet"
            yield Violation(invariant="I19 convergence", where=topic, message=message, witnesses=tuple(found))
