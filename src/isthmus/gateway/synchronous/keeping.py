"""The answers that a gateway holds: the parts that each waits for, its deadline, and what happens when that passes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, ParamSpec, Protocol

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError
from isthmus.gateway.frames.acknowledging import ends_of, fail, read_acknowledgements
from isthmus.gateway.frames.committing import (
    CommitAsked,
    CommitOwed,
    GroupSeen,
    PositionsOwed,
    Span,
    code_of_commit,
    positions_told,
)
from isthmus.gateway.frames.duties import Duties, Duty, SyncLink, Waiter, carriers
from isthmus.gateway.frames.walking import ProduceWalk
from isthmus.gateway.synchronous.commits import CommitLooks
from isthmus.gateway.synchronous.holding import HeldAnswer
from isthmus.gateway.synchronous.positions import PositionWatch
from isthmus.gateway.synchronous.preparing import Preparations
from isthmus.kafka import codes
from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.model.gateways.figures import Refusal
from isthmus.model.kafka.log import LogRange
from isthmus.model.naming import SourceTopic, SourceTopicPartition, TargetTopicPartition

_log = logging.getLogger(__name__)
_LOOK_S: Final = 0.05
_OF_TIMEOUT: Final = 0.8
"""Answer within this share of a request's timeout: after it clients close the connection."""
_COMMIT_S: Final = 24.0
GIVEN_UP_S: Final = 1.0
"""A client may have retried a commit elsewhere that has waited for so long (s)."""
_POSITIONS_S: Final = 3.0
"""Heartbeats share the connection: a member whose offset commit is held longer may lose its session."""
_RETRY_S: Final = 0.1
_BEGINS_S: Final = 3.0
_END_KNOWN_S: Final = 0.5
_UNKNOWN_ROUNDS: Final = 10
_UNKNOWN: Final = -1
_NAMED_MAX: Final = 3
P = ParamSpec("P")


class AnswerOwner(Protocol):
    """The connection whose answers are held. They came from the broker with the id `node`, -1 if that is unknown."""

    @property
    def node(self) -> int: ...

    def release(self) -> None:
        """Send the answers that may leave."""

    def refuse(self, refusal: Refusal, why: str) -> None:
        """End the connection, as no answer would be true."""


@dataclass(slots=True, eq=False)
class _Part:
    """One part that an answer waits for, `what` in words. `target` is the partition of the follower, if it is one, and
    `late` the first offset, by source partition, that the follower may lack if the answer leaves at once; below 0 it is
    the end of the follower. Its error codes are at `codes_at` in the frame. An answer that `implies_earlier`
    acknowledges earlier batches of its producer as well: librdkafka concludes that for an idempotent producer whose
    earlier batches wait to be sent again.
    """

    link: SyncLink
    what: str
    target: TargetTopicPartition | None = None
    late: Mapping[SourceTopicPartition, int] = field(default_factory=dict)
    codes_at: tuple[int, ...] = ()
    implies_earlier: bool = False
    waiter: Waiter | None = None
    is_let_go: bool = False
    losses: int = field(init=False)

    def __post_init__(self) -> None:
        self.losses = self.link.losses


@dataclass(slots=True, eq=False)
class _Kept:
    """An answer that is held. After `deadline` (monotonic s) it leaves with `late_code` for the parts it still waits
    for; without a `late_code` the connection ends.
    """

    answer: HeldAnswer
    owner: AnswerOwner
    since: float
    deadline: float
    late_code: int | None
    parts: set[_Part] = field(default_factory=set)


class _Pending(NamedTuple):
    """A part of an answer that is to be let go, or whose partition is compared up to the offset `end`."""

    kept: _Kept
    part: _Part
    end: int = _UNKNOWN


class HeldCount(NamedTuple):
    """How many answers wait for the follower of a link, and for how long (s) the oldest one has."""

    answers: int
    oldest_s: float


class Keeper:
    """All answers that a gateway holds. `source` is the client of the cluster that it serves."""

    def __init__(self, duties: Duties, source: Client) -> None:
        self.duties = duties
        self._source = source
        self._commits = CommitLooks(duties, source)
        self._preparations = Preparations(duties)
        self._positions: dict[tuple[str, int], PositionWatch] = {}
        self._kept: dict[AnswerOwner, set[_Kept]] = {}
        self._letting: dict[str, list[_Pending]] = {}
        self._comparing: dict[str, list[_Pending]] = {}
        self._tasks = set[asyncio.Task[None]]()
        self._looking: asyncio.Task[None] | None = None

    async def aclose(self) -> None:
        """Cancel all waits: no held answer leaves after that."""
        tasks = [*self._tasks, *([] if self._looking is None else [self._looking])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *(each.aclose() for each in self._positions.values()), return_exceptions=True)

    def count_held(self) -> dict[str, HeldCount]:
        """Count the answers held now, by link."""
        now, found = time.monotonic(), dict[str, HeldCount]()
        waiting = [(frozenset(part.link.name for part in kept.parts), kept.since) for kept in self._list_kept()]
        for names, since in (*waiting, *self._preparations.waiting()):
            for name in names:
                before = found.get(name, HeldCount(0, 0.0))
                found[name] = HeldCount(before.answers + 1, max(before.oldest_s, now - since))
        return found

    async def look_at(self, asked: CommitAsked) -> CommitOwed | bytes:
        """Find out what a commit has to wait for once it was forwarded, or return our own answer if it must not be. It
        returns when followers have all of the transaction that is copied before its decision.
        """
        owed = await self._commits.look(asked)
        if isinstance(owed, bytes):
            return owed
        if (refusal := await self._preparations.prepare(owed)) is not None:
            return refusal
        is_old = time.monotonic() - asked.begun_at > GIVEN_UP_S
        return await self._commits.look_again(owed) if is_old else owed

    def keep(self, answer: HeldAnswer, owner: AnswerOwner) -> None:
        """Hold an answer while a follower lacks a part of it; it is ready at once if none does.

        :raises Short: The answer is cut off.
        :raises ValueError: It is no such answer.
        """
        owed = answer.owed
        if isinstance(owed, GroupSeen):
            self._commits.note(owed)
            answer.is_ready = True
        elif isinstance(owed, PositionsOwed):
            self._keep_positions(answer, owner, owed)
        elif isinstance(owed, CommitOwed):
            self._keep_commit(answer, owner, owed)
        else:
            self._keep_written(answer, owner, owed)

    def leave(self, owner: AnswerOwner) -> None:
        """Drop the held answers of a connection that is gone."""
        for kept in self._kept.pop(owner, ()):
            self._drop(kept)

    def _keep_written(self, answer: HeldAnswer, owner: AnswerOwner, walk: ProduceWalk) -> None:
        outcomes = read_acknowledgements(memoryview(answer.frame), answer.version)
        ends = ends_of(walk.written, outcomes)
        outside = {(each.topic, each.partition): each for each in walk.written if not each.is_transactional}
        deadline = walk.begun_at + walk.timeout_ms / 1000 * _OF_TIMEOUT
        kept = _Kept(answer, owner, time.monotonic(), deadline, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        found: list[tuple[_Part, Callable[[], None]]] = []
        for each in outcomes:
            if each.code in (codes.NONE, codes.DUPLICATE_SEQUENCE_NUMBER) and each.key in outside:
                first, end = ends.get(each.key, (_UNKNOWN, _UNKNOWN))
                part = self._partition_part((SourceTopic(each.key[0]), each.key[1]), first, (each.code_at,))
                if part is not None:
                    part.implies_earlier = outside[each.key].producer_id >= 0
                    found.append((part, self._prepare_log_wait(kept, part, end)))
        self._begin(kept, found)

    def _keep_commit(self, answer: HeldAnswer, owner: AnswerOwner, owed: CommitOwed) -> None:
        kept = _Kept(answer, owner, time.monotonic(), owed.asked.begun_at + _COMMIT_S, None)
        found: list[tuple[_Part, Callable[[], None]]] = []
        is_decided = code_of_commit(memoryview(answer.frame), answer.version) == codes.NONE
        for link in [each for each in self.duties.links if is_decided and each not in owed.untouched]:
            spans = {key: span for key, span in owed.spans.items() if self.duties.of(key[0]) is link}
            for group in owed.groups:
                if link in carriers(self.duties, [group]):
                    found.append(self._group_part(kept, link, group, owed))
            # The partitions have to be found first; until then these parts are not let go.
            if owed.is_all:
                part = _Part(link, f"all of {link.name}", is_let_go=True)
                found.append((part, partial(self._start, self._wait_for_all, kept, part, owed)))
            elif spans:
                part = _Part(link, f"the end of a transaction of {owed.asked.transactional_id}", is_let_go=True)
                found.append((part, partial(self._start, self._wait_for_ends, kept, part, owed, spans)))
        self._begin(kept, found)

    def _keep_positions(self, answer: HeldAnswer, owner: AnswerOwner, owed: PositionsOwed) -> None:
        outcomes = positions_told(memoryview(answer.frame), answer.version)
        now = time.monotonic()
        kept = _Kept(answer, owner, now, now + _POSITIONS_S, codes.COORDINATOR_LOAD_IN_PROGRESS)
        found: list[tuple[_Part, Callable[[], None]]] = []
        carried: dict[SyncLink, dict[SourceTopicPartition, int]] = defaultdict(dict)
        for each in outcomes:
            if not each.code and each.key in owed.keys:
                topic = SourceTopic(each.key[0])
                for link in self._find_carriers(owed.group, topic):
                    carried[link][topic, each.key[1]] = each.code_at
        for link, own in carried.items():
            part = _Part(link, f"group {owed.group}", codes_at=tuple(own.values()))
            found.append((part, partial(self._wait_for_group, kept, part, owed.group, frozenset(own), owner.node)))
        self._begin(kept, found)

    def _find_carriers(self, group: str, topic: SourceTopic) -> Iterable[SyncLink]:
        """Find the links that carry positions of a group on a topic of the source. Where a link goes on without the
        group or the topic, as that was failed over, take its lost namespaces instead.
        """
        lost_last = tuple(self.duties.links)[::-1]
        groups = {each.name: each for each in lost_last if each.target_group(group) is not None}
        topics = {each.name: each for each in lost_last if each.target_topic(topic) is not None}
        return [groups[name] if groups[name].is_lost else each for name, each in topics.items() if name in groups]

    def _partition_part(self, key: SourceTopicPartition, first: int, codes_at: tuple[int, ...]) -> _Part | None:
        """Build the part that waits for a partition of the source at the follower; `None` if no link copies it."""
        link = self.duties.of(key[0])
        topic = None if link is None else link.target_topic(key[0])
        if link is None or topic is None:
            return None
        return _Part(link, f"{key[0]}-{key[1]}", (topic, key[1]), {key: first}, codes_at)

    def _group_part(
        self, kept: _Kept, link: SyncLink, group: str, within: CommitOwed
    ) -> tuple[_Part, Callable[[], None]]:
        part = _Part(link, f"group {group}")
        return part, partial(self._start, self._wait_for_committed, kept, part, group, within)

    async def _wait_for_committed(self, kept: _Kept, part: _Part, group: str, within: CommitOwed) -> None:
        """Wait until the follower has the positions that a transaction has committed."""
        while part in kept.parts:
            try:
                await self._commits.wait_until_complete(within)
            except ClusterError as error:
                _log.warning("whether a transaction is complete is not known: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                if part in kept.parts:
                    self._wait_for_group(kept, part, group, None)
                return

    def _prepare_log_wait(self, kept: _Kept, part: _Part, end: int) -> Callable[[], None]:
        if end >= 0:
            return partial(self._wait, kept, part, end)
        return partial(self._start, self._find_end, kept, part)

    def _begin(self, kept: _Kept, found: list[tuple[_Part, Callable[[], None]]]) -> None:
        """Hold an answer for these parts, and begin to wait for each."""
        begun = [(part, wait, part.link.duty(is_transactional=False)) for part, wait in found]
        kept.parts.update(part for part, _, duty in begun if duty is not Duty.PASS)
        if not kept.parts:
            kept.answer.is_ready = True
            return
        self._kept.setdefault(kept.owner, set()).add(kept)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_always())
        for part, wait, duty in begun:
            if part in kept.parts and not part.link.is_lost:
                # Also for a part to let go: that may take long, and the duty may change until then.
                wait()
            if duty is Duty.LET_GO and part in kept.parts:
                self._let_go(kept, part)

    def _wait(self, kept: _Kept, part: _Part, end: int) -> None:
        """Wait until the follower has a partition up to `end`. If it may have been that far before the source was, the
        records are compared: a repeated batch is alike, and records of a log that was created again are not.
        """
        if part.target is None:
            self._end_part(kept, part)
            return
        (first,) = part.late.values()
        follower, compare = part.link.follower, partial(self._compare, kept, part, end)
        # The records of a committed transaction may be there already, but not its end.
        is_new = follower.lacks(part.target, first if first >= 0 and part.codes_at else end - 1)
        then = partial(self._end_or_compare, kept, part, compare) if is_new else compare
        part.waiter = follower.wait(part.target, end, then)
        if part.waiter is None:
            then()

    def _end_or_compare(self, kept: _Kept, part: _Part, compare: Callable[[], None]) -> None:
        """End a part whose records the follower lacked before and has now. If the link is current its lane wrote them;
        otherwise another writer may have, and they are compared first.
        """
        if part.link.is_current:
            self._end_part(kept, part)
        else:
            compare()

    def _compare(self, kept: _Kept, part: _Part, end: int) -> None:
        """Compare the follower with the source up to `end`, which it has reached."""
        name = part.link.name
        if part in kept.parts:
            is_begun = name in self._comparing
            self._comparing.setdefault(name, []).append(_Pending(kept, part, end))
            if not is_begun:
                self._start(self._compare_all, part.link)

    async def _compare_all(self, link: SyncLink) -> None:
        """Compare for all parts that wait for it. Partitions that cannot be read or compared now are tried again, but
        those of commits only if they cannot be read: there may be no record left to compare.
        """
        rounds = 0
        try:
            while pending := [each for each in self._comparing[link.name] if each.part in each.kept.parts]:
                self._comparing[link.name] = []
                ends: dict[SourceTopicPartition, int] = {}
                for each in pending:
                    (key,) = each.part.late
                    ends[key] = max(each.end, ends.get(key, each.end))
                outcomes = await self._compare_logs(link, ends)
                for each in pending:
                    (key,) = each.part.late
                    is_alike = outcomes.get(key, False)
                    if is_alike or (is_alike is None and not each.part.codes_at):
                        self._end_part(each.kept, each.part)
                    else:
                        self._comparing[link.name].append(each)
                if left := self._comparing[link.name]:
                    rounds += 1
                    if rounds == _UNKNOWN_ROUNDS:
                        _log.warning(
                            "%s: %s is held, as the same record is not seen on both sides: READ is needed there",
                            link.name, left[0].part.what,
                        )  # fmt: skip
                    await asyncio.sleep(_RETRY_S)
        finally:
            del self._comparing[link.name]

    async def _compare_logs(
        self, link: SyncLink, ends: Mapping[SourceTopicPartition, int]
    ) -> Mapping[SourceTopicPartition, bool | None]:
        try:
            return await link.compare(ends)
        except ClusterError as error:
            _log.warning("%s: what its follower has cannot be compared: %s", link.name, error)
        except Exception:  # noqa: BLE001 - the comparison is tried again
            _log.exception("%s: what its follower has cannot be compared", link.name)
        return {}

    def _wait_for_group(
        self, kept: _Kept, part: _Part, group: str, keys: frozenset[SourceTopicPartition] | None, node: int = _UNKNOWN
    ) -> None:
        """Wait until the follower has the positions of a group, as this broker of the source has them."""
        watch = self._positions.get((part.link.name, node))
        if watch is None or watch.link is not part.link:
            # A link that was asynchronous meanwhile is a new object: answers that wait for the former one are let go.
            watch = PositionWatch(part.link, self._source, None if node < 0 else node)
            self._positions[part.link.name, node] = watch
        part.waiter = watch.wait(group, keys, partial(self._end_part, kept, part))

    async def _find_end(self, kept: _Kept, part: _Part) -> None:
        """Wait for the current end of the source: the offset of a duplicate batch is unknown, but below that."""
        (key,) = part.late
        while part in kept.parts:
            try:
                found = (await log_ranges(self._source, [key])).values.get(key)
            except ClusterError as error:
                _log.warning("where %s ends is not known: %s", part.what, error)
            else:
                if found is not None and found.end >= 0 and part in kept.parts:
                    self._wait(kept, part, found.end)
                    return
            await asyncio.sleep(_RETRY_S)

    async def _wait_for_all(self, kept: _Kept, part: _Part, owed: CommitOwed) -> None:
        """Wait until the follower has all partitions and groups of a link, as the source has them now."""
        link = part.link
        while part in kept.parts:
            try:
                keys = await self._commits.all_partitions(link)
                begins = await self._find_begins(link, keys)
                ends = await self._commits.wait_for_end(owed, keys)
                groups = await self._commits.all_groups(link)
            except ClusterError as error:
                _log.warning("what %s copies is not known: %s", link.name, error)
                await asyncio.sleep(_RETRY_S)
                continue
            if part in kept.parts:
                found = [self._group_part(kept, link, group, owed) for group in groups]
                self._replace_part(kept, part, [*found, *self._log_parts(kept, begins, ends)])

    async def _wait_for_ends(
        self, kept: _Kept, part: _Part, owed: CommitOwed, spans: Mapping[SourceTopicPartition, Span]
    ) -> None:
        """Wait until the follower has the end of a transaction in all of its partitions. The end is behind all its
        records, and a transaction with an end survives a failover, which aborts all others.
        """
        while part in kept.parts:
            try:
                ends = await self._commits.wait_for_end(owed, spans)
            except ClusterError as error:
                _log.warning("where a transaction ends is not known: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            if part in kept.parts:
                begins = {key: span.begin for key, span in spans.items()}
                found = self._log_parts(kept, begins, ends)
                self._replace_part(kept, part, found)
                self._start(self._forget_once_there, part.link, owed.producer_id, spans, ends)

    async def _forget_once_there(
        self,
        link: SyncLink,
        producer_id: int,
        spans: Mapping[SourceTopicPartition, Span],
        ends: Mapping[SourceTopicPartition, int],
    ) -> None:
        """Forget a prepared commit once the follower has its end in all partitions, so that it is not ended again."""
        targets = self._map_to_follower(link, ends)
        await link.follower.wait_until_covered({target: ends[key] for key, target in targets.items()})
        link.forget(producer_id, {target: spans[key].end for key, target in targets.items()})

    async def _find_begins(
        self, link: SyncLink, keys: Collection[SourceTopicPartition]
    ) -> dict[SourceTopicPartition, int]:
        """Return the offsets from which a follower may lack parts of a transaction that has ended at the source: the
        last stable offsets of the follower, as all transactions before them have their ends there; 0 if unknown.
        """
        targets = self._map_to_follower(link, keys)
        found: Mapping[TargetTopicPartition, LogRange] = {}
        with contextlib.suppress(ClusterError):
            found = (await log_ranges(link.follower.client, targets.values(), timeout_s=_BEGINS_S)).values
        return {key: found[target].stable_end if target in found else 0 for key, target in targets.items()}

    def _map_to_follower(
        self, link: SyncLink, keys: Iterable[SourceTopicPartition]
    ) -> dict[SourceTopicPartition, TargetTopicPartition]:
        """Map partitions of the source to those of the follower."""
        return {key: (topic, key[1]) for key in keys if (topic := link.target_topic(key[0])) is not None}

    def _log_parts(
        self, kept: _Kept, begins: Mapping[SourceTopicPartition, int], ends: Mapping[SourceTopicPartition, int]
    ) -> list[tuple[_Part, Callable[[], None]]]:
        found = []
        for key, end in ends.items():
            part = self._partition_part(key, begins.get(key, 0), ())
            if part is not None and end:
                found.append((part, self._prepare_log_wait(kept, part, end)))
        return found

    def _replace_part(self, kept: _Kept, part: _Part, found: list[tuple[_Part, Callable[[], None]]]) -> None:
        """Replace a part by the parts that were found for it."""
        self._begin(kept, found)
        self._end_part(kept, part)

    def _end_part(self, kept: _Kept, part: _Part) -> None:
        """End the wait for a part, unless it is lost: then another writer wrote at the follower."""
        if part in kept.parts and not self._is_lost(part):
            kept.parts.discard(part)
            if part.waiter is not None:
                part.waiter.cancel()
            if not kept.parts:
                self._end(kept)

    def _end(self, kept: _Kept) -> None:
        """Let a held answer leave."""
        self._forget(kept)
        kept.answer.is_ready = True
        kept.owner.release()

    def _forget(self, kept: _Kept) -> None:
        own = self._kept.get(kept.owner)
        if own is not None:
            own.discard(kept)
            if not own:
                del self._kept[kept.owner]
        self._drop(kept)

    def _drop(self, kept: _Kept) -> None:
        for part in kept.parts:
            if part.waiter is not None:
                part.waiter.cancel()
        kept.parts.clear()

    def _list_kept(self) -> list[_Kept]:
        return [kept for own in self._kept.values() for kept in own]

    async def _look_always(self) -> None:
        """Look at all held answers now and then, as long as there are any."""
        while self._kept:
            await asyncio.sleep(_LOOK_S)
            try:
                self._look(time.monotonic())
            except Exception:  # noqa: BLE001 - what is held is looked at again
                _log.exception("held answers could not be examined")

    def _look(self, now: float) -> None:
        duties = {link.name: link.duty(is_transactional=False) for link in self.duties.links if not link.is_lost}
        for kept in self._list_kept():
            if now >= kept.deadline or any(map(self._is_lost, kept.parts)):
                self._expire(kept)
                continue
            for part in list(kept.parts):
                duty = duties.get(part.link.name, Duty.PASS)
                if duty is Duty.PASS:
                    self._end_part(kept, part)
                elif duty is Duty.LET_GO or (duty is Duty.HOLD and _stands_still(part)):
                    self._let_go(kept, part)

    def _is_lost(self, part: _Part) -> bool:
        """Whether nothing more of a part can reach the follower, as it was or may have been detached meanwhile."""
        if part.link.is_lost or part.losses == part.link.losses:
            return part.link.is_lost
        return not part.late or any(self.duties.of(topic) is not part.link for topic, _ in part.late)

    def _expire(self, kept: _Kept) -> None:
        """End a held answer whose deadline has passed, or of which a part is lost."""
        where = ", ".join(sorted(part.what for part in kept.parts)[:_NAMED_MAX])
        if kept.late_code is None:
            self._forget(kept)
            kept.owner.refuse(
                Refusal.FOLLOWER, f"the follower did not get {where} in time: the commit is to be asked for again"
            )
            return
        _log.warning("%s did not get to the follower in time: the client gets an error", where)
        for part in kept.parts:
            for at in part.codes_at:
                fail(kept.answer.frame, at, kept.late_code)
        self._end(kept)

    def _let_go(self, kept: _Kept, part: _Part) -> None:
        """Let a part go once it is written to the ledger that the follower may lack it."""
        if part.is_let_go:
            return
        part.is_let_go = True
        name = part.link.name
        if name in self._letting:
            self._letting[name].append(_Pending(kept, part))
        else:
            self._letting[name] = [_Pending(kept, part)]
            self._start(self._let_go_all, part.link)

    async def _let_go_all(self, link: SyncLink) -> None:
        batch: list[_Pending] = []
        try:
            while batch := self._letting[link.name]:
                self._letting[link.name] = []
                late = await self._find_late_begins(batch)
                async with asyncio.timeout(link.settings.lag_max_ms / 1000):
                    await link.let_go(late)
                for each in batch:
                    self._end_part(each.kept, each.part)
        except TimeoutError:
            _log.warning("%s: nothing that its follower may lack is acknowledged", link.name)
        except Exception:  # noqa: BLE001 - what is held is looked at again
            _log.exception("%s: it could not be written down that its follower lags", link.name)
        finally:
            for each in (*batch, *self._letting.pop(link.name, ())):
                each.part.is_let_go = False

    async def _find_late_begins(self, batch: Collection[_Pending]) -> dict[SourceTopicPartition, int]:
        """Find the first offset of each source partition that the follower may lack of what these acknowledge. All
        share one deadline for unknown ends of followers: with one for each the last ones would wait too long.
        """
        deadline, late = Deadline(_END_KNOWN_S), dict[SourceTopicPartition, int]()
        for each in batch:
            for key, first in each.part.late.items():
                begin = await self._find_late_begin(each.part, first, deadline)
                late[key] = min(late.get(key, begin), begin)
        return late

    async def _find_late_begin(self, part: _Part, first: int, deadline: Deadline) -> int:
        """Find the first offset that the follower may lack of what an answer acknowledges: `first`, or the end of the
        follower if `first` is unknown or earlier batches are acknowledged as well. 0 if that end stays unknown until
        the deadline: the follower may lack everything.
        """
        if first >= 0 and not part.implies_earlier:
            return first
        if part.target is None:
            return 0
        follower = part.link.follower
        while (end := follower.end(part.target)) < 0 and not deadline.has_passed:
            await asyncio.sleep(_LOOK_S)
        return max(end if first < 0 else min(first, end), 0)

    def _start(self, work: Callable[P, Coroutine[None, None, None]], *args: P.args, **kwargs: P.kwargs) -> None:
        task = asyncio.create_task(work(*args, **kwargs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _stands_still(part: _Part) -> bool:
    """Whether the follower has got nothing of the partition for as long as it may lag. A client that retries after its
    timeout waits for the same offset, so the time goes on.
    """
    return part.target is not None and part.link.follower.still_s(part.target) >= part.link.settings.lag_max_ms / 1000
