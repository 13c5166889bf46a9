"""Where the target's partitions ended when a link began to write to them: later records came by it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from isthmus.kafka.client import Client
from isthmus.kafka.log.offsets import log_ranges
from isthmus.ledger.documents.kinds import BeginningDocument, Document
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.records import in_batches
from isthmus.model.naming import TargetTopic
from isthmus.topics.plan import TopicPlan

_RANGES_S: Final = 2.0
"""The longest wait for a leader that is away: where its partitions began is unknown then."""


class Beginnings:
    """The beginnings, written down by the controller of a link before the first lane of a partition runs."""

    def __init__(self, ledger: LinkLedger, target: Client) -> None:
        self._ledger = ledger
        self._target = target
        # Documents written here are read again a moment later: only a document that ends them comes from others.
        self._known = {each.key: each for each in BeginningDocument.find_all(ledger.documents.values())}
        ledger.listen(self._hear)

    def _hear(self, key: str, document: Document | None) -> None:
        if isinstance(document, BeginningDocument) and document.is_over:
            self._known[key] = document
        elif document is None:
            self._known.pop(key, None)

    async def write_down(self, topics: Iterable[TopicPlan], followed: Collection[TargetTopic]) -> None:
        """Write down where these topics begin, for all partitions whose lanes are about to run for the first time since
        the link follows. For topics that are `followed` since an older release it is unknown where they began.

        :raises Fenced: Another controller has taken the link over.
        :raises ClusterError: The target does not answer, or the ledger cannot be written.
        """
        due = [self._find_beginning(topic, is_followed=topic.topic in followed) for topic in topics if topic.lanes]
        missing = [(each.topic, partition) for each, partitions in due for partition in partitions]
        found = (await log_ranges(self._target, missing, timeout_s=_RANGES_S)).values if missing else {}
        changed: list[BeginningDocument] = []
        for document, partitions in due:
            ends = {each: found[key].end if (key := (document.topic, each)) in found else -1 for each in partitions}
            written = replace(document, begins=tuple(sorted({**dict(document.begins), **ends}.items())))
            if written != self._known.get(written.key):
                changed.append(written)
        for batch in in_batches(changed):
            await self._ledger.write(*batch)
        self._known.update((document.key, document) for document in changed)

    def _find_beginning(self, topic: TopicPlan, *, is_followed: bool) -> tuple[BeginningDocument, list[int]]:
        """Return the recorded beginning of a topic, and the partitions that begin now."""
        topic_id = topic.lanes[0].target_topic_id
        document = BeginningDocument(link=self._ledger.link, topic=topic.topic, topic_id=topic_id)
        known = self._known.get(document.key)
        partitions = [lane.key.partition for lane in topic.lanes]
        if known is not None and known.is_about(topic_id):
            held = dict(known.begins)
            return known, [each for each in partitions if each not in held]
        if known is None and is_followed:
            return replace(document, begins=tuple((each, -1) for each in partitions)), []
        return document, partitions
