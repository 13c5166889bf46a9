"""The result of a verification, kept in the ledger, so that `status` and metrics show it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from isthmus.errors import ClusterError
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import VerificationDocument
from isthmus.ledger.log import append_once
from isthmus.memory.links import recollect
from isthmus.model.configuration import LedgerSettings
from isthmus.model.link import Link
from isthmus.model.offsets import OffsetPolicy
from isthmus.model.problem import Problem
from isthmus.model.text.wording import first_few, format_count

if TYPE_CHECKING:
    from isthmus.spark.compare.links import PartitionVerdict, TopicVerdict, Verdict


def document_of(link: str, verdict: Verdict) -> VerificationDocument:
    """Return the document for a verdict about all topics of a link."""
    return VerificationDocument(link=link, records=verdict.records, problem=_problem(link, verdict))


def _problem(link: str, verdict: Verdict) -> Problem | None:
    differing = [topic for topic in verdict.topics if topic.differs]
    names = sorted(topic.target_topic for topic in differing)
    if not names and verdict.waiting:
        return Problem(
            f"{format_count(verdict.waiting, 'offset')} of the source could not be compared: an open transaction held "
            "them back",
            f"isthmus status {link} names it; verify again when it has ended.",
        )
    if not names and verdict.not_compared:
        reasons = sorted({each.reason for part in _partitions(verdict) for each in part.uncompared})
        return Problem(
            f"{format_count(verdict.not_compared, 'offset')} of the source could not be compared: {first_few(reasons)}",
            f"isthmus verify {link} names them; --since with a later time leaves them out.",
        )
    if not names:
        return None
    hint = next((topic.hint for topic in differing if topic.hint), "")
    repair = "; ".join(_repairs(link, differing))
    return Problem(f"both sides differ: {first_few(names)}", f"isthmus verify {link} shows where; {hint or repair}.")


def _repairs(link: str, differing: Sequence[TopicVerdict]) -> Iterator[str]:
    mapped = sorted(topic.target_topic for topic in differing if topic.offsets is OffsetPolicy.MAPPED)
    if len(mapped) < len(differing):
        yield f"isthmus link recover {link} repairs topics that have diverged"
    if mapped:
        # Others may write there, so nothing is deleted for it.
        yield (
            f"offsets of {first_few(mapped)} are mapped: give such a topic another name at the target (topics.naming), "
            "or delete it there if nobody else writes to it, and it is copied again"
        )


def _partitions(verdict: Verdict) -> Iterator[PartitionVerdict]:
    return (part for topic in verdict.topics for part in topic.partitions)


async def remember_verdict(link: Link, target: Client, verdict: Verdict, ledger: LedgerSettings) -> None:
    """Write the verdict down, if the link was ever run. A user who may only read the target gets no error."""
    with contextlib.suppress(ClusterError):
        if (await recollect(link.name, target)).documents:
            found = document_of(link.name, verdict)
            await append_once(target, [found], replication_factor=ledger.replication_factor)
