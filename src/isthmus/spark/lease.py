"""What goes into a lease and what comes out of it: values that travel between the driver and an executor."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Final

from isthmus.lane.producer import ProducerIdentity
from isthmus.ledger.view import Bookmark
from isthmus.model.cluster import Cluster
from isthmus.model.lane import Lane, LaneMark
from isthmus.model.link import Limits
from isthmus.model.schemagate import NO_SCHEMAS, SchemaIds
from isthmus.model.wording import counted
from isthmus.wire.credentials import renewed

_IN_FLIGHT_MIN: Final = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkContext:
    """What all leases of a link have in common. It carries credentials, so it travels in the closure of the task and
    nowhere else: what is in Spark's configuration shows in its UI and its event log.

    `expiration_ms` is the target's `producer.id.expiration.ms`, 0 where it is not known. From `source_mark` on the
    ledger at the source has all that lanes with an allowance have to know; it moves on while the link runs.
    """

    link: str
    source: Cluster
    target: Cluster
    producer: ProducerIdentity
    limits: Limits
    expiration_ms: int = 0
    source_mark: Bookmark = field(default_factory=Bookmark)

    def renewed(self, limits: Limits) -> LinkContext:
        """The context of a lease that begins: its share of the limits, and the credentials that files hold now, for
        executors that do not have the files.
        """
        return replace(self, source=renewed(self.source), target=renewed(self.target), limits=limits)


def shared(limits: Limits, company: int) -> Limits:
    """What each of so many leases in one task may have in flight."""
    share = max(limits.bytes_in_flight // company, min(limits.bytes_in_flight, _IN_FLIGHT_MIN))
    return replace(limits, bytes_in_flight=share)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSpec:
    """One term in which one task owns lanes. Leases of a slot follow one another as `generation` 1, 2, 3 ...

    The task ends by itself `term_s` after it began. It writes only when every generation before has ended: those up
    to `ended_through` had when it was started, leaving nothing on its way if `is_clean` and the lanes as `marks` tell.
    It reads the ledger from `ledger_position` on; whatever came before is in here already, as the `schemas` that the
    target knows are. `company` is how many leases
    share its Spark task, itself included.
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
    schemas: SchemaIds = NO_SCHEMAS
    term_s: float = 60.0
    company: int = 1

    @property
    def job_group(self) -> str:
        """What its Spark job is called where it runs alone."""
        return f"isthmus/{self.context.link}/{self.controller}/{self.slot}/{self.generation}"

    @property
    def description(self) -> str:
        """For the Spark UI."""
        partitions = counted(len(self.lanes), "partition")
        return f"isthmus {self.context.link} slot {self.slot} lease {self.generation}: {partitions}"
