"""Links that carry groups in the other direction: what they commit at our source came from our target.

The log of commits names the producer of every commit in a transaction. A link commits under a transactional id of its
own, and the ledger of the cluster it writes to, which is our source, says from which cluster it comes.
"""

from __future__ import annotations

from collections.abc import Iterable

from isthmus.control.groups.transaction import producer_id_of
from isthmus.control.links.memory import remembered
from isthmus.errors import NotAuthorized, PlanRefused, UnsupportedByBroker
from isthmus.ledger.documents import LinkDocument
from isthmus.wire.client import Client


class Counterparts:
    """The links from the target to the source. `producers` says of a producer at the source whether it is theirs."""

    def __init__(self, source: Client, target: Client) -> None:
        self.producers: dict[int, bool] = {}
        self._source, self._target = source, target

    async def learn(self, producer_ids: Iterable[int]) -> None:
        """Find out about producers. Only those that are new cost a question; where we may not ask, nobody is theirs.

        :raises ClusterError: It cannot be told now.
        """
        unknown = set(producer_ids) - self.producers.keys()
        if unknown:
            theirs = await self._look_up()
            # A link is in the ledger before it commits anything: who is not found now never will be.
            self.producers |= {producer_id: producer_id in theirs for producer_id in unknown}

    async def _look_up(self) -> set[int | None]:
        try:
            documents = (await remembered(self._source)).documents().values()
            here = (await self._target.metadata()).cluster_id
            links = [d.link for d in documents if isinstance(d, LinkDocument) and d.source_cluster_id == here]
            return {await producer_id_of(self._source, link) for link in links}
        except (NotAuthorized, UnsupportedByBroker, PlanRefused):
            return set()
