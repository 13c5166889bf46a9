"""Other links that commit at the source: one in the other direction, and the distributors of a tree.

The log of commits names the producer of every commit in a transaction. A link commits under a transactional id of its
own, and the ledger of the cluster it writes to, which is the source here, says from which cluster it comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from isthmus.errors import NotAuthorized, PlanRefused, UnsupportedByBroker
from isthmus.groups.transaction import groups_transactional_id
from isthmus.kafka.client import Client
from isthmus.kafka.transactions.open import producer_of
from isthmus.ledger.documents.kinds import LinkDocument
from isthmus.memory.links import read_ledger


class Counterparts:
    """The links from the target to the source, or those `named`. `producers` has, for a producer at the source, the
    link it belongs to, "" for none.
    """

    def __init__(self, source: Client, target: Client, *, named: Collection[str] | None = None) -> None:
        self.producers: dict[int, str] = {}
        self._source, self._target = source, target
        self._named = named

    async def learn(self, producer_ids: Iterable[int]) -> None:
        """Look up producers. Only new ones cost a request; where reading is not permitted, none belongs to a link.

        :raises ClusterError: That is unknown now.
        """
        unknown = set(producer_ids) - self.producers.keys()
        if unknown:
            theirs = await self._look_up()
            # A link is in the ledger before it commits anything: a producer that is not found now never will be.
            self.producers |= {producer_id: theirs.get(producer_id, "") for producer_id in unknown}

    async def _look_up(self) -> dict[int, str]:
        try:
            known = LinkDocument.find_all((await read_ledger(self._source)).documents().values())
            if self._named is None:
                here = (await self._target.metadata()).cluster_id
                links = [document.link for document in known if document.source_cluster_id == here]
            else:
                links = [document.link for document in known if document.link in self._named]
            return {(await producer_of(self._source, groups_transactional_id(link)))[0]: link for link in links}
        except (NotAuthorized, UnsupportedByBroker, PlanRefused):
            return {}
