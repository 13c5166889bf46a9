"""The records of a running link in its ledger: of its topics, its gaps and its end."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from isthmus.errors import IsthmusError
from isthmus.ledger.documents.kinds import ControllerDocument, GapDocument, LoopDocument, TopicDocument
from isthmus.ledger.link import LinkLedger
from isthmus.ledger.records import Deletion, in_batches
from isthmus.memory.forgetting import letting_go
from isthmus.model.kafka.topic import TopicIds
from isthmus.model.lane import LaneKey, LaneReport
from isthmus.model.links.firstlook import FirstLook
from isthmus.model.loop import LoopProgress
from isthmus.model.naming import TargetTopic
from isthmus.topics.firstlook import first_look_document
from isthmus.topics.plan import TopicPlan
from isthmus.topics.recording import build_document, changed_topics, wanted_topics


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """The ledger of a link, as its session writes it. All methods raise `Fenced` and `ClusterError`."""

    ledger: LinkLedger

    async def announce(self, topics: Collection[TopicPlan]) -> frozenset[TargetTopic]:
        """Announce topics to begin, unless others write them; return those of them that were not begun before."""
        documents = list(wanted_topics(self.ledger.link, topics, self.ledger.documents))
        for batch in in_batches(documents):
            await self.ledger.write(*batch)
        held = (TopicDocument.find(self.ledger.documents, self.ledger.link, each.topic) for each in topics)
        return frozenset(each.target_topic for each in held if each is not None and each.is_wanted)

    async def write_begun(self, began: Mapping[TargetTopic, TopicIds]) -> None:
        """Write down topics that are about to be copied."""
        await self.ledger.write(*(build_document(self.ledger.link, name, ids) for name, ids in began.items()))

    async def forgotten(self, topics: Iterable[TargetTopic]) -> None:
        """Delete all records of topics that the source has no more, as if they had never been mirrored."""
        documents = self.ledger.documents
        for batch in in_batches([change for topic in topics for change in letting_go(documents, topic)]):
            await self.ledger.write(*batch)

    async def write_look(self, look: FirstLook) -> None:
        """Write down the first look for topics: those that were there are known or wait."""
        await self.ledger.write(first_look_document(self.ledger.link, look))

    async def reports(self, topics: Iterable[TopicPlan], reports: Mapping[LaneKey, LaneReport]) -> None:
        """Write down what is refused or has ended and why, and what the source deleted before it was copied."""
        link, documents = self.ledger.link, self.ledger.documents
        changed = list(changed_topics(link, topics, documents, reports))
        if changed:
            await self.ledger.write(*changed)
        # No other record keeps gaps for ever.
        gaps = [
            GapDocument(
                link=link,
                topic=report.key.topic,
                partition=report.key.partition,
                offset_begin=gap.offset_begin,
                offset_end=gap.offset_end,
            )
            for report in reports.values()
            for gap in report.gaps
        ]
        new = [gap for gap in gaps if gap.key not in documents]
        if new:
            await self.ledger.write(*new)

    async def loops(self, loops: Iterable[LoopProgress]) -> None:
        """Write down the state of everything that the link synchronizes."""
        documents = [
            LoopDocument(link=self.ledger.link, loop=loop.loop, state=loop.state, problem=loop.problem)
            for loop in loops
        ]
        changed = [document for document in documents if self.ledger.documents.get(document.key) != document]
        if changed:
            await self.ledger.write(*changed)

    async def write_farewell(self) -> None:
        """Write the farewell, so that `status` shows the end at once; otherwise silence does ten seconds later."""
        with contextlib.suppress(IsthmusError):
            await self.ledger.write(Deletion(ControllerDocument.key_of(self.ledger.link)))
