"""Wait until a link, or one of its topics, meets conditions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from isthmus.deadline import Deadline
from isthmus.errors import ConfigError
from isthmus.kafka.session import ClientSession
from isthmus.memory.filtering import in_force
from isthmus.memory.named import NamedLink
from isthmus.model.link import Link
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.naming import TargetTopic
from isthmus.model.state import AGED_S
from isthmus.model.text.elapsed import ago
from isthmus.model.text.plain import Flat, Hidden, PlainValue, computed_field, tenths, texts
from isthmus.model.text.wording import format_count
from isthmus.status.condition import SourceEnds, WaitCondition, source_ends
from isthmus.status.status import PATIENCE_S, StatusReader

LOOK_S: Final = 1.0
_STEP_MIN_S: Final = 3.0
"""The shortest patience with one step of a look: however short the wait, a cluster that answers is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """Whether the conditions are met."""

    name: str
    link: str
    topic: str | None
    met: bool
    unmet: Annotated[tuple[WaitCondition, ...], texts]
    elapsed_s: Annotated[float, "elapsed_seconds", tenths]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(PlainValue):
    """Whether the conditions are met, and how the link or the topic stands.

    One look while waiting: `unmet` are the conditions that do not hold, `elapsed_s` is since the wait began.
    `look_age_s` is how old the look is (s), if the next one did not end in time.

    `topic` is the one waited for, as it is called at the target, or `None` for the whole link. `is_of_pairs` means that
    the conditions are about the state of the link's pairs.
    """

    link: Hidden[LinkProgress]
    topic: Hidden[TargetTopic | None]
    unmet: Hidden[tuple[WaitCondition, ...]]
    elapsed_s: Hidden[float]
    is_of_pairs: Hidden[bool] = False
    look_age_s: Hidden[float] = 0.0

    @property
    def is_met(self) -> bool:
        return not self.unmet

    @computed_field
    def found(self) -> Annotated[LinkProgress | TopicProgress | None, "status"]:
        """The link or topic that is waited for; `None` while the topic is not there."""
        return self.link if self.topic is None else _topic(self.link, self.topic)

    @property
    def name(self) -> str:
        """The link, or `link/topic`."""
        return self.link.link if self.topic is None else f"{self.link.link}/{self.topic}"

    @property
    def lag_records(self) -> int | None:
        """How many records are still to be copied, `None` while that is unknown."""
        found = self.found
        return None if found is None or found.lag_records < 0 else found.lag_records

    @property
    def state(self) -> str | None:
        """The state that was asked for: its own, or that of the pairs of a link."""
        if self.is_of_pairs:
            return str(self.link.pair_state)
        return None if self.found is None else str(self.found.state)

    @property
    def described(self) -> str:
        """The subject of the wait, and how it stands."""
        if self.found is None:
            return f"{self.name} is not there yet"
        lag = "unknown" if self.lag_records is None else f"{self.lag_records:,}"
        waiting = self.found.waiting_records
        held = f", {format_count(waiting, 'offset waits', 'offsets wait')} for open transactions" if waiting > 0 else ""
        age_s = self.found.age_s + self.look_age_s
        as_of = f" (as of {ago(age_s)})" if age_s > AGED_S else ""
        return f"{self.name} is {self.state}, lag {lag}{as_of}{held}"

    @property
    def missing(self) -> str:
        """The conditions that do not hold."""
        return " and ".join(map(str, self.unmet)) or "nothing more"

    @computed_field(before="link")
    def met(self) -> Flat[Met]:
        """Whether the conditions are met."""
        return Met(
            name=self.name,
            link=self.link.link,
            topic=self.topic,
            met=self.is_met,
            unmet=self.unmet,
            elapsed_s=self.elapsed_s,
        )


async def wait_until(
    one: NamedLink,
    topic: str | None,
    conditions: Sequence[WaitCondition],
    *,
    timeout_s: float,
    on_look: Callable[[Waiting], None] = lambda _: None,
) -> Waiting:
    """Look once a second until all conditions hold, or the time is over; at least once. The last look has the result.
    A subject is caught up when it holds all that its source had at the first look that succeeded: producers may go on.

    The topic is named as at the source or as at the target. A cluster that is away is waited for, too: the first look
    is finished all the same, and a later one is given up when the time is over.

    :raises ConfigError: There is no such link, or it does not mirror the topic.
    """
    begun, deadline = time.monotonic(), Deadline(timeout_s)
    name = None if topic is None else await _find_topic(one.link, topic, one.session)
    reader = StatusReader((one.link,), one.session, patience_s=_patience_s(timeout_s))
    ends: SourceEnds | None = None
    look: Waiting | None = None
    while True:
        if look is None:
            (progress,) = await reader.read()
        # The last look begins when the time is over, and may take as long as any pause.
        elif (again := await _read(reader, max(deadline.left_s, LOOK_S))) is not None:
            progress = again
        else:
            elapsed_s = time.monotonic() - begun
            return replace(look, elapsed_s=elapsed_s, look_age_s=elapsed_s - look.elapsed_s)
        elapsed_s = time.monotonic() - begun
        found = progress if name is None else _topic(progress, name)
        ends = source_ends(found) if ends is None and found is not None else ends
        unmet = tuple(each for each in conditions if found is None or not each.holds(found, ends))
        is_of_pairs = any(each.is_of_pairs for each in conditions)
        look = Waiting(link=progress, topic=name, unmet=unmet, elapsed_s=elapsed_s, is_of_pairs=is_of_pairs)
        on_look(look)
        if look.is_met or deadline.has_passed:
            return look
        await asyncio.sleep(min(LOOK_S, deadline.left_s))


def _patience_s(timeout_s: float) -> float | None:
    """Return how long a step of a look may take: half of a short wait, as both clusters may hang; one that only looks
    once has as long as any status.
    """
    return max(min(timeout_s / 2, PATIENCE_S), _STEP_MIN_S) if timeout_s else None


async def _read(reader: StatusReader, timeout_s: float) -> LinkProgress | None:
    """Read the only link of a reader; `None` if that takes longer than `timeout_s`."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            (progress,) = await reader.read()
            return progress
    return None


async def _find_topic(link: Link, topic: str, session: ClientSession) -> TargetTopic:
    (link,) = await in_force([link], session)
    name = link.topics.find_target(topic)
    if name is None:
        raise ConfigError(
            f"link {link.name} does not mirror topic {topic}",
            hint=f"isthmus status {link.name} -o name shows which topics it mirrors.",
        )
    return name


def _topic(link: LinkProgress, name: TargetTopic) -> TopicProgress | None:
    return next((topic for topic in link.topics if topic.topic == name), None)
