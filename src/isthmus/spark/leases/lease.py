"""The values of leases that are sent between the driver and an executor."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from isthmus.engine.brokers.producer import ProducerIdentity
from isthmus.kafka.connect.credentials import renew_credentials
from isthmus.ledger.view import Bookmark
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneMark, Milestone
from isthmus.model.link import Limits
from isthmus.model.links.transform import Transform
from isthmus.model.schemas.gate import NO_SCHEMAS, SchemaIds
from isthmus.model.text.wording import format_count
from isthmus.spark.formats.decoding import Prepared

_IN_FLIGHT_MIN: Final = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkContext:
    """The context that all leases of a link share. It has credentials, so it is sent in the closure of the task and
    nowhere else: Spark's configuration shows in its UI and its event log.

    `expiration_ms` is the target's `producer.id.expiration.ms`, 0 if it is unknown. Lanes with an allowance read the
    ledger at the source from `source_mark` on; it moves on while the link runs. `transforms` are those that lanes name,
    `columns` has what the expressions of those see that decode by schemas.
    """

    link: str
    source: Cluster
    target: Cluster
    producer: ProducerIdentity
    limits: Limits
    expiration_ms: int = 0
    source_mark: Bookmark = field(default_factory=Bookmark)
    transforms: tuple[Transform, ...] = ()
    columns: tuple[Prepared, ...] = ()

    def renew(self, limits: Limits) -> LinkContext:
        """Return the context of a new lease, with its share of the limits, and the credentials that files hold now, as
        executors do not have the files.
        """
        return replace(
            self, source=renew_credentials(self.source), target=renew_credentials(self.target), limits=limits
        )


def with_transforms(known: tuple[Transform, ...], more: Iterable[Transform]) -> tuple[Transform, ...]:
    """Return the known transforms and more: lanes that were planned before go on with the former ones."""
    return tuple({each.digest: each for each in (*known, *more)}.values())


def share_limits(limits: Limits, company: int) -> Limits:
    """Return the limits of each of `company` leases in one task: its share of the bytes in flight."""
    share = max(limits.bytes_in_flight // company, min(limits.bytes_in_flight, _IN_FLIGHT_MIN))
    return replace(limits, bytes_in_flight=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSpec:
    """One term in which one task owns lanes. Leases of a slot follow one another as `generation` 1, 2, 3 ...

    The task ends by itself `term_s` after it began. It writes only when every earlier generation has ended: those up to
    `ended_through` had ended when it was started, with nothing in flight if `is_clean`, and the lanes as in `marks`.
    `milestones` are the furthest positions of lanes, also of leases that crashed since. It reads the ledger from
    `ledger_position` on; earlier entries are included here, as are the `schemas` that the target knows. `company` is
    the number of leases that share its Spark task, itself included. The run had copied `records` records in batches of
    `size_bytes` when it was started.
    """

    context: LinkContext
    slot: int
    controller: int
    generation: int
    revision: int
    lanes: tuple[Lane, ...]
    ended_through: int
    is_clean: bool
    ledger_position: int
    ledger_topic_id: uuid.UUID
    marks: tuple[LaneMark, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    schemas: SchemaIds = NO_SCHEMAS
    term_s: float = 60.0
    company: int = 1
    records: int = 0
    size_bytes: int = 0

    @property
    def name(self) -> str:
        """The name of the lease in Spark's UI: of its link, by slot and generation."""
        return f"{self.context.link} lease {self.slot}.{self.generation}"

    @property
    def job_group(self) -> str:
        """The name of its Spark job if it runs alone."""
        return f"isthmus/{self.context.link}/{self.controller}/{self.slot}/{self.generation}"

    @property
    def description(self) -> str:
        """The description for the Spark UI, which cannot count what a Python task copies while it runs."""
        partitions = format_count(len(self.lanes), "partition")
        copied = f"{format_count(self.records, 'record')} ({self.size_bytes / (1 << 20):,.1f} MiB)"
        return f"isthmus {self.name}: {partitions}; the run has copied {copied} before"
