"""The parts of a running link that stay as they are: both clusters connected, its ledger open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isthmus.control.links.memory import pauses, rebuilt_topics
from isthmus.control.links.parted import parted_topics
from isthmus.ledger.link import LinkLedger
from isthmus.model.naming import TargetTopic
from isthmus.model.pauses import Pauses
from isthmus.model.timings import Timings
from isthmus.model.topic import Rebuilt, TopicIds
from isthmus.spark.lease import LinkContext
from isthmus.wire.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLink:
    """A link from the moment its ledger is open. `context` is what its leases have in common as it begins."""

    context: LinkContext
    source: Client
    target: Client
    ledger: LinkLedger
    timings: Timings

    @property
    def name(self) -> str:
        return self.context.link

    @property
    def paused(self) -> Pauses:
        """What an operator has paused."""
        return pauses(self.name, self.ledger.documents)

    @property
    def rebuilt(self) -> Mapping[TargetTopic, Rebuilt]:
        """The topics that were deleted and created again on purpose."""
        return rebuilt_topics(self.name, self.ledger.documents)

    @property
    def parted(self) -> Mapping[TargetTopic, TopicIds]:
        """The topics that continue with mapped offsets since both sides diverged."""
        return parted_topics(self.name, self.ledger.documents)
