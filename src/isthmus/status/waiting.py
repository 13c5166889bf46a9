"""Wait until a link, or one of its topics, meets conditions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from isthmus.errors import ConfigError
from isthmus.kafka.session import ClientSession
from isthmus.memory.filtering import in_force
from isthmus.memory.named import NamedLink
from isthmus.model.link import Link
from isthmus.model.links.progress import LinkProgress, TopicProgress
from isthmus.model.naming import TargetTopic
from isthmus.model.text.plain import Flat, Hidden, PlainValue, computed_field, tenths, texts
from isthmus.model.text.wording import format_count
from isthmus.status.condition import SourceEnds, WaitCondition, source_ends
from isthmus.status.status import StatusReader

LOOK_S: Final = 1.0


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

    `topic` is the one waited for, as it is called at the target, or `None` for the whole link. `is_of_pairs` means that
    the conditions are about the state of the link's pairs.
    """

    link: Hidden[LinkProgress]
    topic: Hidden[TargetTopic | None]
    unmet: Hidden[tuple[WaitCondition, ...]]
    elapsed_s: Hidden[float]
    is_of_pairs: Hidden[bool] = False

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
        return f"{self.name} is {self.state}, lag {lag}{held}"

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

    The topic is named as at the source or as at the target. A cluster that is away is waited for, too.

    :raises ConfigError: There is no such link, or it does not mirror the topic.
    """
    begun = time.monotonic()
    name = None if topic is None else await _find_topic(one.link, topic, one.session)
    reader = StatusReader((one.link,), one.session)
    ends: SourceEnds | None = None
    while True:
        (progress,) = await reader.read()
        found = progress if name is None else _topic(progress, name)
        ends = source_ends(found) if ends is None and found is not None else ends
        unmet = tuple(each for each in conditions if found is None or not each.holds(found, ends))
        elapsed_s = time.monotonic() - begun
        is_of_pairs = any(each.is_of_pairs for each in conditions)
        look = Waiting(link=progress, topic=name, unmet=unmet, elapsed_s=elapsed_s, is_of_pairs=is_of_pairs)
        on_look(look)
        if look.is_met or elapsed_s >= timeout_s:
            return look
        await asyncio.sleep(min(LOOK_S, timeout_s - elapsed_s))


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
