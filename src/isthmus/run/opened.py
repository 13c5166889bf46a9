"""The parts of a running link that stay as they are: both clusters connected, its ledger open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isthmus.kafka.client import Client
from isthmus.ledger.link import LinkLedger
from isthmus.memory.links import rebuilt_topics
from isthmus.memory.parted import parted_topics
from isthmus.model.kafka.topic import Rebuilt, TopicIds
from isthmus.model.naming import TargetTopic
from isthmus.model.process.timings import Timings
from isthmus.spark.leases.lease import LinkContext


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
    def rebuilt(self) -> Mapping[TargetTopic, Rebuilt]:
        """The topics that were deleted and created again on purpose."""
        return rebuilt_topics(self.name, self.ledger.documents)

    @property
    def parted(self) -> Mapping[TargetTopic, TopicIds]:
        """The topics that continue with mapped offsets since both sides diverged."""
        return parted_topics(self.name, self.ledger.documents)
