"""The ledger of one link, as its controller keeps it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, Fenced, IsthmusError, PlanRefused
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import (
    OTHERS,
    ControllerDocument,
    DepartureDocument,
    Document,
    LeaseDocument,
    ProgressDocument,
    TaskDocument,
    TopicDocument,
    kind_of,
)
from isthmus.ledger.fencing import FencedWriter, build_fenced
from isthmus.ledger.keeping import require_kept
from isthmus.ledger.log import GATHER_S, RETRY_S, LedgerTail
from isthmus.ledger.pulse import BEAT_S, SILENCE_S, Pulse
from isthmus.ledger.records import Deletion, Entry, LedgerChange, in_batches
from isthmus.ledger.topic import ensure_topic, is_missing, on_topic
from isthmus.ledger.view import LedgerView
from isthmus.model.lane import LaneState
from isthmus.model.process.whereabouts import Whereabouts

KEEPING_S: Final = 30.0
"""The interval in seconds of the check whether the ledger keeps its records."""
_INTRODUCTION_S: Final = 10.0
OnDocument = Callable[[str, Document | None], None]
_T = TypeVar("_T")


async def read_documents(
    client: Client, link: str | None = None, *, kinds: Collection[type[Document]] = ()
) -> dict[str, Document]:
    """Read a cluster's ledger: documents of one link or all, of these kinds or all, by key; empty without a ledger.

    :raises PlanRefused: A newer Isthmus wrote it.
    :raises ClusterError: It cannot be read.
    """
    view, wanted = LedgerView(client), {kind.KIND for kind in kinds}
    try:
        entries = (await view.look(is_patient=True)).entries
        return newest((entry for entry in entries if not kinds or entry.kind in wanted), link)
    finally:
        view.close()


def newest(entries: Iterable[Entry], link: str | None = None) -> dict[str, Document]:
    """The newest document of each key, of one link or all.

    :raises PlanRefused: A newer Isthmus wrote one of them.
    """
    # Most of a log are replaced documents: decode only the newest of each key.
    last = {entry.key: entry for entry in entries if link is None or entry.link == link}
    documents = {key: entry.decode() for key, entry in last.items()}
    return {key: document for key, document in documents.items() if document is not None}


def latest_generation(documents: Iterable[Document]) -> int:
    """The generation of the latest controller that wrote any of these documents, itself or by a task; -1 for none."""
    found = -1
    for document in documents:
        match document:
            case ControllerDocument(generation=generation):
                found = max(found, generation)
            case LeaseDocument(controller=controller) | TaskDocument(controller=controller):
                found = max(found, controller)
            case ProgressDocument(controller=controller):
                found = max(found, controller)
    return found


def _is_forgettable(document: Document | None) -> bool:
    """Whether others may delete a controller's document: one of a topic that its source has deleted."""
    return isinstance(document, TopicDocument) and document.state == LaneState.SOURCE_DELETED


class LinkLedger:
    """The ledger of a link for its controller. `open` it, keep `run()` running beside, `close` it.

    `documents` are the newest of the link by key, of all writers. `generation` is that of this controller. `problem` is
    why the ledger could not be read or written at the last try, or does not keep its records. `was_lost` means after
    `open` that there were controllers before that the ledger does not know. From `opened_at` (monotonic) on the ledger
    shows this controller: its process (`whereabouts`), and its start (`started_ms`, by the wall clock).
    """

    def __init__(
        self,
        client: Client,
        link: str,
        *,
        replication_factor: int | None = None,
        whereabouts: Whereabouts | None = None,
        started_ms: int | None = None,
        keeping_s: float = KEEPING_S,
    ) -> None:
        self.link = link
        self.documents: dict[str, Document] = {}
        self._client = client
        self._replication_factor = replication_factor
        self._writer = FencedWriter(client, link)
        self._tail = LedgerTail(client)
        self._listeners: list[OnDocument] = []
        self._writing = asyncio.Lock()
        started_ms = int(time.time() * 1000) if started_ms is None else started_ms
        self._pulse = Pulse(link, whereabouts or Whereabouts(), started_ms)
        self._goes_by = ""
        self._is_due = asyncio.Event()
        self._is_lost = False
        self._doubtful: set[str] = set()
        self._fenced: Fenced | None = None
        self._error: ClusterError | None = None
        self._unkept: PlanRefused | None = None
        self._keeping_s = keeping_s
        self.was_lost = False
        self.opened_at = 0.0
        self._heard_at = 0.0

    @property
    def generation(self) -> int:
        return self._writer.generation

    @property
    def problem(self) -> ClusterError | PlanRefused | None:
        return self._error or self._unkept

    def silence_s(self, now: float) -> float:
        """Return for how long (s) the ledger was neither read nor written by the moment `now` (monotonic)."""
        return max(now - self._heard_at, 0.0)

    @property
    def beat(self) -> int:
        """The last beat that was made; later ones are larger."""
        return self._pulse.beat

    @property
    def tail(self) -> LedgerTail:
        """The position in the ledger's topic up to which it was read: a task begins to read there."""
        return self._tail

    async def open(self) -> None:
        """Fence the previous controller, read the ledger, and announce this one; create the topic if missing.

        :raises PlanRefused: A newer Isthmus wrote the ledger, or its topic does not keep its records.
        :raises ClusterError: The ledger cannot be read or written.
        """
        # First, so that a refusal does not disturb the present controller.
        await require_kept(self._client)
        await self._writer.take_over()
        try:
            async with self._writer.looking(replication_factor=self._replication_factor):
                self.documents = newest(await self._on_topic(self._tail.read_to_end), self.link)
        except Fenced:
            raise await self._find_fencing_error() from None
        self._writer.outrank(latest_generation(self.documents.values()))
        self.was_lost = self._writer.is_later and not self.documents
        # Documents of former controllers' aborted transactions count: write them again, as brokers drop those records.
        loose = [
            self.documents[key] for key in self._tail.aborted & self.documents.keys() if kind_of(key) not in OTHERS
        ]
        for batch in in_batches((self._make_beat(), *loose)):
            await self.write(*batch)
        self.opened_at = self._heard_at = time.monotonic()

    def close(self) -> None:
        self._tail.close()
        self._writer.close()

    def listen(self, listener: OnDocument) -> None:
        """Call `listener(key, document)` for all documents of the link that tasks and operators write from now on.

        The document is None if it was deleted.
        """
        self._listeners.append(listener)

    def go_by(self, attached_said: str) -> None:
        """Announce at once what is attached (`ControllerDocument`), behind all waiting writes, but not before leases of
        former controllers have ended (`be_alone`).
        """
        self._goes_by = attached_said
        self._is_due.set()

    def be_alone(self) -> None:
        """Note that leases of former controllers have ended, and left no request on its way."""
        self._pulse.be_alone()
        self._is_due.set()

    async def write(self, *changes: LedgerChange) -> None:
        """Write documents, all or none. Durable when it returns.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The write was refused or did not succeed in a minute.
        """
        await self._write(lambda: changes)

    async def _write(self, made: Callable[[], Sequence[LedgerChange]]) -> None:
        """Write the changes that `made` builds once no other write is under way, behind the notice of a mute if due."""
        if self._fenced is not None:
            raise self._fenced
        try:
            async with self._writing:
                changes = (*self._make_mute_notice(), *made())
                keys = {change.key for change in changes}
                try:
                    await self._on_topic(partial(self._writer.append, changes))
                except BaseException:
                    self._doubtful |= {key for key in keys if kind_of(key) not in OTHERS}
                    raise
                self._heard_at = time.monotonic()
                self._doubtful -= keys
                for change in changes:
                    if isinstance(change, Document):
                        self.documents[change.key] = change
                    else:
                        self.documents.pop(change.key, None)
        except Fenced:
            raise await self._find_fencing_error() from None

    async def _find_fencing_error(self) -> Fenced:
        self._fenced = build_fenced(self.link, await self._find_successor())
        return self._fenced

    async def _write_again(self, keys: Iterable[str]) -> None:
        """Write the present state of these documents again."""

        def newest_of(batch: Iterable[LedgerChange]) -> list[LedgerChange]:
            return [self.documents.get(change.key) or Deletion(change.key) for change in batch]

        for batch in in_batches([self.documents.get(key) or Deletion(key) for key in sorted(keys)]):
            await self._write(partial(newest_of, batch))

    async def _find_successor(self) -> ControllerDocument | None:
        """Find the controller that has taken the link over. It fences first and announces itself a moment later."""
        deadline = Deadline(_INTRODUCTION_S)
        view = LedgerView(self._client)
        try:
            while not deadline.has_passed:
                with contextlib.suppress(IsthmusError):
                    for found in newest((await view.look()).entries, self.link).values():
                        if isinstance(found, ControllerDocument) and found.generation > self.generation:
                            return found
                await asyncio.sleep(RETRY_S)
        finally:
            view.close()
        return None

    async def _on_topic(self, work: Callable[[], Awaitable[_T]]) -> _T:
        return await on_topic(self._client, work, replication_factor=self._replication_factor)

    async def run(self) -> None:
        """Follow the ledger and write a beat every two seconds, until cancelled.

        :raises Fenced: Another controller has taken the link over.
        :raises PlanRefused: A newer Isthmus writes the ledger.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow())
                group.create_task(self._live())
                group.create_task(self._watch_topic())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    @property
    def is_held(self) -> bool:
        """Whether brokers delay the controller's writes or reads because of a client quota."""
        return self._pulse.held_s > 0 or self._tail.was_held(SILENCE_S)

    async def _live(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(BEAT_S):
                    await self._is_due.wait()
            self._is_due.clear()
            begun = time.monotonic()
            try:
                if self._pulse.is_muted_longer(self._writer.muted_until, begun):
                    # Renew first: other writes that wait go on, as the beat comes behind them.
                    self._writer.renew()
                # A later `go_by` is for the next beat: other writes may wait behind this one.
                await self._write(partial(self._vouch, self._goes_by))
                was_held = self._writer.held_since(begun)
                self._pulse.note_written(begun, time.monotonic(), was_held=was_held)
                # A write that failed may be in the log all the same.
                await self._write_again(self._doubtful)
            except ClusterError as error:
                # Do not end during an outage of the ledger: tasks go on as long as they may.
                self._error = error

    def _make_mute_notice(self) -> Sequence[ControllerDocument]:
        """Build the beat that announces for how long the leader reads nothing more, if that is due. It is sent over
        another connection, with the next write: over this one the leader would read it too late, and a successor would
        take the link over.
        """
        if not self._pulse.announce_mute(self._writer.muted_until, time.monotonic()):
            return ()
        self._writer.renew()
        return (self._make_beat(),)

    async def _watch_topic(self) -> None:
        """Check regularly whether the ledger's topic still keeps its records."""
        while True:
            await asyncio.sleep(self._keeping_s)
            try:
                await require_kept(self._client)
                self._unkept = None
            except PlanRefused as refused:
                self._unkept = refused

    def _vouch(self, attached_said: str) -> Sequence[ControllerDocument]:
        self._pulse.vouch(attached_said)
        return (self._make_beat(),)

    def _make_beat(self) -> ControllerDocument:
        return self._pulse.make(self.generation)

    async def _follow(self) -> None:
        while True:
            try:
                is_of_others = await self._look()
                self._error, self._heard_at = None, time.monotonic()
                if is_of_others:
                    await asyncio.sleep(GATHER_S)
            except ClusterError as error:
                self._error = error
                await asyncio.sleep(RETRY_S)
                if is_missing(error):
                    await self._recreate()

    async def _recreate(self) -> None:
        # Whether it worked shows when the ledger is looked at again.
        with contextlib.suppress(ClusterError):
            await ensure_topic(self._client, replication_factor=self._replication_factor)

    async def _look(self) -> bool:
        """Read new documents. Return whether all of them were about other links."""
        poll = await self._tail.poll()
        self._is_lost = self._is_lost or poll.is_other_log
        for entry in poll.entries:
            self._take_entry(entry)
        if self._is_lost:
            # Tasks write their own documents again by themselves.
            own = (TaskDocument, ProgressDocument, DepartureDocument)
            await self._write_again(key for key, found in self.documents.items() if not isinstance(found, own))
            self._is_lost = False
        return bool(poll.entries) and poll.at_end and all(each.link != self.link for each in poll.entries)

    def _take_entry(self, entry: Entry) -> None:
        """Take a document of another writer. The controller's own are known before they are read, and newer here."""
        if entry.link != self.link or entry.kind == DepartureDocument.KIND:
            # Departures are for tasks alone, and many.
            return
        document = entry.decode()
        if isinstance(document, ControllerDocument) and document.generation > self.generation:
            self._fenced = build_fenced(self.link, document)
            raise self._fenced
        is_by_others = entry.kind in OTHERS and (document is not None or entry.value is None)
        if is_by_others or (entry.value is None and _is_forgettable(self.documents.get(entry.key))):
            self._take(entry.key, document)

    def _take(self, key: str, document: Document | None) -> None:
        if document is not None:
            self.documents[key] = document
        else:
            self.documents.pop(key, None)
        for listener in self._listeners:
            listener(key, document)
