"""Remove a cluster that is lost for good from a tree: distributors that copied to it leave it by force, the loss is
reported before that, and should it come back none of its records enter the tree unnoticed.

Each step may be repeated: an interrupted call is made again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from functools import partial
from typing import Final

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, ConfigError, GateNotMet, PlanRefused, Unreachable
from isthmus.kafka.client import Client
from isthmus.ledger.documents.kinds import LeaseDocument, PauseDocument
from isthmus.ledger.log import append_once
from isthmus.ledger.topic import LEDGER_TOPIC
from isthmus.local.operator import operator
from isthmus.memory.declarations import Declarations
from isthmus.memory.declared import Declared
from isthmus.memory.ending import end_leases
from isthmus.memory.hearing import is_run
from isthmus.memory.links import LinkMemory, now_ms, recollect
from isthmus.memory.switching import leave, read_allowances, write_choice
from isthmus.model.configuration import LedgerSettings
from isthmus.model.lane import LaneState
from isthmus.model.trees.departure import remove_doubt, to_leave, without
from isthmus.model.trees.switching import choice_of
from isthmus.model.trees.tree import Distributor, Tree
from isthmus.model.trees.treeloss import TreeLoss, loss_of

PATIENCE_S: Final = 60.0
"""How long one call waits until all distributors have left the cluster."""
_LOOK_S: Final = 0.5
_ANSWER_S: Final = 5.0


class GoneCluster:
    """One cluster of a tree that is lost for good; `gone` are others of the tree that are as well. A distributor that
    copied to it has no requests in flight there `revocation_s` after it was asked to leave; one call waits
    `patience_s`.
    """

    def __init__(
        self,
        declarations: Declarations,
        cluster: str,
        gone: Collection[str],
        ledger: LedgerSettings,
        *,
        revocation_s: float,
        patience_s: float,
    ) -> None:
        self._declarations = declarations
        self.cluster = cluster
        self.gone = frozenset(gone) - {cluster}
        self._ledger = ledger
        self._revocation_s = revocation_s
        self._patience_s = patience_s

    def check(self, declared: Declared, tree: Tree) -> None:
        """Require that it does not answer, and neither do the others that are gone.

        :raises ConfigError: A cluster is not in the tree.
        :raises PlanRefused: A cluster answers, or none is left that could know of it.
        """
        if {*tree.clusters} <= {self.cluster, *self.gone}:
            raise PlanRefused(
                f"no cluster of tree {tree.name} would be left that answers",
                hint="A tree that is gone as a whole is not changed: start a tree of other clusters.",
            )
        for alias in (self.cluster, *sorted(self.gone)):
            if alias not in tree.clusters:
                raise ConfigError(
                    f"tree {tree.name} has no cluster {alias}", hint=f"It has {', '.join(tree.clusters)}."
                )
            problem = declared.away.get(alias)
            if problem is None and declared.is_there(alias):
                raise PlanRefused(
                    f"{alias} answers",
                    hint=f"isthmus tree remove {tree.name} {alias} without --force loses nothing."
                    if alias == self.cluster
                    else f"Leave it out of --gone: {alias} stays in the tree.",
                )
            if problem is None or problem.code != Unreachable.error_code:
                why = f": {problem.message}" if problem else ""
                raise PlanRefused(
                    f"it is unknown whether {alias} is gone{why}",
                    hint=(problem.hint if problem else "") or f"Write {alias} into the file as it was.",
                )

    async def check_silent(self) -> None:
        """Require that no broker of a cluster that is gone answers: a ledger that a client quota holds back, or that
        has no leader, cannot be read in time either.

        :raises PlanRefused: A broker answers.
        """
        for alias in (self.cluster, *sorted(self.gone)):
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await self._client(alias).metadata()
            except (ClusterError, TimeoutError):
                continue
            raise PlanRefused(
                f"{alias} answers, though its ledger cannot be read now",
                hint=f"It is not gone: raise the client quota that delays it, or check the leader of {LEDGER_TOPIC} "
                "there. isthmus doctor shows both.",
            )

    def require_others(self, declared: Declared, tree: Tree) -> None:
        """Require that all others of the tree answer.

        :raises Unreachable: One does not answer.
        """
        for alias in tree.clusters:
            if alias in declared.away and alias not in (self.cluster, *self.gone):
                problem = declared.away[alias]
                raise Unreachable(
                    f"{problem.message}; whether it copies to {self.cluster} is not known",
                    cluster=alias,
                    hint=f"{problem.hint} If it is gone for good as well: --gone {alias}.",
                )

    async def examine(self, declared: Declared, tree: Tree) -> TreeLoss:
        """Return what is lost with it, if it leaves now.

        :raises PlanRefused: A distributor copies from it, so it is there; or it is unknown how far a distributor that
            copied to it went.
        :raises GateNotMet: The only leaf to go over to is in doubt, and gets what it lacks by itself.
        :raises ClusterError: A ledger cannot be read.
        """
        choices, entrances = declared.find_chosen([tree]), []
        for each, leaf in to_leave(tree, choices, self.cluster, gone=self.gone):
            known = choice_of(each.target, each.leaves, choices.get(each.name))
            if known.target != self.cluster:
                continue
            entrances.append(each.name)
            if await read_allowances(self._client(each.cluster), each.name, self.cluster) is None:
                raise PlanRefused(
                    f"{each.name} has never reported at {each.cluster} how far it goes with {self.cluster}",
                    hint=f"If nothing was ever copied to {self.cluster}, write the tree without it.",
                )
            if leaf not in self.gone and known.doubt(leaf) is not None:
                raise GateNotMet(
                    f"{leaf} is IN_DOUBT: it may lack what {each.name} sent to it, and there is no other leaf to go to",
                    hint="It gets that by itself while isthmus run runs. Then call this again.",
                )
        reports = {}
        for each in self._own(tree):
            reports[each.name] = {
                leaf: (await self._read_memory(declared, each, leaf)).last_known for leaf in each.leaves
            }
        doubts = {
            (each.name, each.cluster): doubt
            for each in tree.distributors
            if (choice := choices.get(each.name)) is not None and (doubt := choice.doubt(self.cluster)) is not None
        }
        return loss_of(reports, doubts, entrances)

    async def _read_memory(self, declared: Declared, each: Distributor, leaf: str) -> LinkMemory:
        """Read a leaf's memory of a distributor of the cluster; nothing where the leaf does not answer."""
        if not declared.is_there(leaf):
            return LinkMemory(each.name)
        client = self._client(leaf)
        known = await recollect(each.name, client)
        if any(one.state is LaneState.ACTIVE for one in known.reports.values()) and await is_run(each.name, client):
            raise PlanRefused(
                f"{self.cluster} does not answer here, and the process that runs {each.name} copies from it to {leaf}",
                hint=f"If it is gone all the same, ask again in a minute: isthmus status shows {each.name}.",
            )
        return known

    async def leave(self, declared: Declared, tree: Tree) -> Declared:
        """Let distributors that copy to it change to another leaf; return what the clusters declare then.

        :raises GateNotMet: Another process keeps choosing other leaves.
        :raises ClusterError: A cluster that is not gone does not answer any more.
        """
        since: dict[tuple[str, int], float] = {}
        deadline = Deadline(self._patience_s)
        while going := to_leave(tree, declared.find_chosen([tree]), self.cluster, gone=self.gone):
            for each, leaf in going:
                source, choice = self._client(each.cluster), declared.choices.get((each.cluster, each.name))
                change = partial(without, each, leaf, self.cluster)
                if change(choice) is not None:
                    written = await write_choice(
                        source, each.name, change, replication_factor=self._ledger.replication_factor
                    )
                    choice = None if written is None else written.choice
                # The controller of the distributor does so as well.
                if choice is not None and choice.is_forced and choice.target == self.cluster:
                    since_s = since.setdefault((each.name, choice.serial), time.monotonic())
                    if time.monotonic() - since_s >= self._revocation_s:
                        await leave(source, each, choice)
            if deadline.has_passed:
                raise GateNotMet(
                    f"these have not left {self.cluster} yet: {', '.join(each.name for each, _ in going)}",
                    hint="isthmus tree targets shows how far they are. Then call this again.",
                )
            await asyncio.sleep(_LOOK_S)
            declared = await self._declarations.look()
            self.check(declared, tree)
        return declared

    async def bar(self, declared: Declared, before: Tree, after: Tree) -> None:
        """End all waiting for it, and keep its records out of the tree should it come back: its distributors are paused
        at all clusters to which they might copy, and their leases there are ended.

        :raises ClusterError: A ledger cannot be read or written.
        """
        for each in after.distributors:
            choice = declared.choices.get((each.cluster, each.name))
            if remove_doubt(self.cluster, choice) is not None and declared.is_there(each.cluster):
                await write_choice(self._client(each.cluster), each.name, partial(remove_doubt, self.cluster))
        await asyncio.gather(
            *(
                self._end(each.name, self._client(leaf))
                for each in self._own(before)
                for leaf in each.leaves
                if declared.is_there(leaf)
            )
        )

    async def _end(self, link: str, target: Client) -> None:
        known = await recollect(link, target)
        if not any(pause is None for pause in known.paused.parts):
            pause = PauseDocument(link=link, since_ms=now_ms(), by=operator())
            await append_once(target, [pause], replication_factor=self._ledger.replication_factor)
        if LeaseDocument.find_all(known.documents.values()) and not await is_run(link, target):
            await end_leases(link, target)

    def _own(self, tree: Tree) -> list[Distributor]:
        return [each for each in tree.distributors if each.cluster == self.cluster]

    def _client(self, alias: str) -> Client:
        return self._declarations.client(alias)
