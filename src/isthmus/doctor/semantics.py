"""Whether both clusters of a declared link still keep what they could when it was declared (docs/links.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from isthmus.kafka.admin.brokers import describe_cluster
from isthmus.kafka.client import Client
from isthmus.ledger.documents.declared import declaration_of
from isthmus.loops.loop import LinkView
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.links.semantics import SEMANTICS_LOOP, downgrade
from isthmus.model.loop import Change
from isthmus.model.namespace import NamespaceNaming
from isthmus.model.problem import Problem

_INTERVAL_S: Final = 30.0


class SemanticsLoop:
    """Looks for downgrades of both clusters, and changes nothing: an operator has to decide about them."""

    name = SEMANTICS_LOOP

    def interval_s(self, link: Link) -> float | None:
        """How often clusters are asked, in seconds."""
        is_declared = any(isinstance(each.naming, NamespaceNaming) for each in (link.topics, link.groups))
        return _INTERVAL_S if is_declared else None

    async def look(self, view: LinkView) -> Sequence[Change]:
        """Return the clusters that were downgraded.

        :raises ClusterError: A cluster cannot be asked.
        """
        known = declaration_of(view.link.name, view.documents.values())
        found = [await self._examine(view.link, known, client) for client in (view.source, view.target)]
        return [change for change in found if change is not None]

    async def apply(self, view: LinkView, changes: Sequence[Change]) -> Sequence[Change]:
        """Change nothing: return all changes."""
        return changes

    async def _examine(self, link: Link, known: Declaration, client: Client) -> Change | None:
        alias = client.cluster.alias
        declared = known.semantics.get((await describe_cluster(client)).cluster_id)
        if declared is None:
            return None
        # Imported only when needed: a status asks for no more than the names of loops.
        from isthmus.doctor.handshake import semantics_of

        downgraded = downgrade(declared, await semantics_of(client))
        if downgraded is None:
            return None
        problem = Problem(
            f"{alias} was downgraded since link {link.name} was declared: {downgraded}",
            f"Upgrade it again, or accept that: isthmus link update {link.name} --accept-semantics.",
        )
        return Change(
            loop=self.name, subject=f"cluster {alias}", setting="semantics", before=None, after=None, problem=problem
        )
