"""A follower becomes a leader of its own: after the source, in good order (promote), or without it (failover).

Each step can be repeated: a repeated verb continues where the interrupted one ended. First the proof, then the
namespaces are detached, then the lanes end, and only when no lane can write any more is the namespace released.
The record that its topics were copies is deleted last: until then a repeated verb can carry groups into them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple

from isthmus.deadline import Deadline
from isthmus.errors import ClusterError, ConfigError, GateNotMet, PlanRefused
from isthmus.groups.links import AsyncGroups
from isthmus.groups.positions.carrying import Standing
from isthmus.kafka.client import Client
from isthmus.kafka.log.listoffsets import PartitionKey
from isthmus.kafka.session import ClientSession
from isthmus.kafka.transactions.aborting import abort_mirrored, leaderless, transactions_in
from isthmus.kafka.transactions.finishing import find_unfinished, finish
from isthmus.ledger.documents.gateways import PromisedDocument, prepared_commits
from isthmus.links import gates
from isthmus.links.claiming import hold_claim
from isthmus.links.clientmoves import ClientMove, client_move
from isthmus.links.declaring import AsyncDeclaredLinks
from isthmus.links.policies import settle_policies
from isthmus.links.promising import (
    committed_before,
    keep_committed,
    keep_promised,
    promised_again,
    promised_before,
    promised_since,
)
from isthmus.links.resuming import attaching, is_reversed, not_let_go, reserved_still
from isthmus.links.reversing import await_reserved, require_no_members, settings_back
from isthmus.links.writers import build_undecided, build_written_to, owners_in
from isthmus.memory.attaching import away
from isthmus.memory.declarations import read_declarations
from isthmus.memory.declared import Declared
from isthmus.memory.ending import end_leases
from isthmus.memory.filtering import in_force
from isthmus.memory.forgetting import forget_copies
from isthmus.memory.hearing import Beats, is_gone
from isthmus.memory.leaving import (
    add_transactional_ids,
    followed_topics,
    goes_without,
    is_writing,
    left_nothing,
    left_partitions,
    names_age_s,
    seen_logs,
    source_logs,
    with_transactional_ids,
    without_open,
    write_down,
    writing_lanes,
)
from isthmus.memory.links import LinkMemory, now_ms, read_ledger, recollect
from isthmus.memory.operators import require_nobody_recovers
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.gateways.moves import Clients
from isthmus.model.gateways.prepared import MaybeCommitted, Unfinished
from isthmus.model.kafka.transactions import OpenTransaction
from isthmus.model.lane import LaneKey
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration, letting_go
from isthmus.model.links.promotion import LeftPartition, Promotion, Verb
from isthmus.model.namespace import NamespaceMap
from isthmus.model.problem import Problem
from isthmus.model.text.wording import first_few, format_count
from isthmus.namespaces.namespaces import AsyncNamespaces
from isthmus.synchronous.synchronous import Detachment, still_missing

OnStep = Callable[[str], None]
OnProgress = Callable[[int, int], None]
"""Called with the number of partitions that have finished the present step, and the number of all of them."""
LOOK_S: Final = 0.5
FENCED_QUIET_S: Final = 0.2
"""The source must be quiet for this long where its gateways refuse requests."""


class _Chosen(NamedTuple):
    """The link with all its groups, limited to the namespaces that a verb was given for; these namespaces; and those of
    them that are still attached. The link is `None` where all that the verb let go of was released before.
    """

    link: Link | None
    maps: tuple[NamespaceMap, ...]
    attached: tuple[NamespaceMap, ...]
    target: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoter:
    """Promotes namespaces of one declared link, those that `maps` name or all.

    `quiet_s` is for how long the source must not have been written to, `timeout_s` how long any wait may take. A
    promotion may leave `max_lag` records of the source behind in all, a failover any number. `clients` says what
    happens to the clients of gateways before the source.
    """

    configuration: Configuration
    session: ClientSession
    name: str
    maps: tuple[NamespaceMap, ...] = ()
    quiet_s: float = 5.0
    timeout_s: float = 60.0
    max_lag: int = 0
    clients: Clients = "move"
    on_step: OnStep = lambda _: None
    on_progress: OnProgress = lambda _, __: None

    async def reverse(self, link: str, *, dry_run: bool = False) -> Promotion:
        """Promote all of it, and have the source follow the target from then on, by a new link of the name `link`.

        :raises ConfigError: There is no such link.
        :raises GateNotMet: As `promote`, or consumers are at work at the source.
        :raises PlanRefused: The link is being recovered, nothing is attached that could be reversed, or a filter is a
            regular expression and names differ on both sides; or the new link cannot be created: the namespaces are
            promoted, and a repeated call goes on.
        :raises ClusterError: A cluster does not answer.
        """
        if self.maps:
            raise ConfigError("a link is reversed as a whole", hint="Promote a part of it: isthmus link promote --map.")
        declared, known = await self._look()
        if is_reversed(declared, known, link):
            if declared.behind(known) and not dry_run:
                # The earlier run was interrupted while it deleted the link.
                links = AsyncDeclaredLinks(self.configuration.written, self.session)
                await links.change(self.name, lambda _: {}, even_deleted=True)
            return Promotion(link=self.name, verb="reverse", namespaces=known.let_go_by("reverse"), is_done=True)
        former, chosen, *_ = await self._choose("reverse")
        # Everything that this verb lets go of, detached or released earlier or not.
        maps = known.maps or known.let_go_by("reverse")
        target = self.configuration.cluster(declared.alias_of(known.target) or known.target.alias)
        # Settings that cannot be translated for the way back are found before anything changes.
        settings = await settings_back(known, maps, self.session.client(target))
        if former is not None:
            if not await self._gateways(former, chosen):
                await require_no_members(former, self.session.client(former.source))
            leaders, ledger = {each.source for each in chosen}, self.configuration.ledger
            await await_reserved(
                former.source, self.session, leaders, ledger, timeout_s=self.timeout_s, on_step=self.on_step
            )
        found = replace(await self._promote("reverse", dry_run=dry_run), verb="reverse")
        if dry_run:
            return found
        self.on_step(f"creating link {link}")
        links, known = AsyncDeclaredLinks(self.configuration.written, self.session), (await self._look())[1]
        await links.create(
            link,
            source=known.target.alias,
            target=known.source.alias,
            maps=[each.reversed for each in maps],
            settings=settings,
        )
        if not known.is_deleted:
            await links.delete(self.name)
        return found

    async def promote(self, *, dry_run: bool = False) -> Promotion:
        """Stop mirroring into the namespaces, once they hold all that the source has and nobody writes there.

        :raises ConfigError: There is no such link, or it never attached one of the namespaces.
        :raises GateNotMet: It lags, a lane waits for an operator, clients write to the source, or groups are not
            carried; only positions of groups were changed, unless the cause arose after the proof, as the message says.
        :raises PlanRefused: The link is being recovered; or nothing is attached, and what is reserved still was not
            detached by this verb.
        :raises ClusterError: A cluster does not answer.
        """
        return await self._promote("promote", dry_run=dry_run)

    async def _promote(self, verb: Verb, *, dry_run: bool) -> Promotion:
        link, chosen, attached, target = await self._choose(verb)
        is_attached = bool(attached)
        if link is None:
            done = Promotion(link=self.name, verb="promote", namespaces=chosen, is_done=True)
            return done if dry_run else await self._forget_origin(await self._finish_move(verb, done, chosen), target)
        if self.clients == "leave":
            return await self._prove_and_release(verb, link, chosen, None, is_attached=is_attached, dry_run=dry_run)
        async with self._moving(link, chosen) as move:
            if not move.gateways:
                return await self._prove_and_release(verb, link, chosen, None, is_attached=is_attached, dry_run=dry_run)
            await move.check()
            if dry_run:
                # While clients still write nothing can be proven.
                found = await self._result("promote", link, chosen, {})
                gates.require_copies(self.name, found.partitions)
                return replace(found, gateways=move.gateways)
            await self._require_within_reach(link, chosen, is_attached=is_attached)
            await move.fence()
            found = await self._prove_and_release(verb, link, chosen, move, is_attached=is_attached, dry_run=False)
            # While the topics are recorded as copies, a repeated verb can carry groups into them.
            return await self._forget_origin(await self._serve_at_target(found, move), target)

    async def _prove_and_release(
        self,
        verb: Verb,
        link: Link,
        chosen: tuple[NamespaceMap, ...],
        move: ClientMove | None,
        *,
        is_attached: bool,
        dry_run: bool,
    ) -> Promotion:
        groups: dict[str, str] = {}
        if is_attached or dry_run:
            # Proven before anything changes.
            groups = await self._prove(verb, link, chosen, move, is_attached=is_attached, dry_run=dry_run)
        if dry_run:
            return await self._result("promote", link, chosen, groups)
        await self._detach(verb, chosen, link)
        await self._await_lanes_ended(link)
        if not is_attached:
            # It was detached earlier, at an unknown time: what it holds now counts, as no records are on their way.
            groups = await self._prove(verb, link, chosen, move, is_attached=False, dry_run=False)
        found = await self._result("promote", link, chosen, groups)
        gates.require_copies(self.name, found.partitions, is_detached=True)
        if (late := found.missing_records_min) > self.max_lag:
            raise GateNotMet(
                f"link {self.name}: {format_count(late, 'record')} came to the source after it was quiet",
                hint=f"Stop its producers, isthmus link reattach {self.name}, and give this command again.",
            )
        if is_attached:
            # Commits made at the source while the lanes ended count as well.
            found = replace(found, groups=await self._carry_groups(verb, link, chosen, move, dry_run=False))
        found = await self._let_go(found, link)
        return found if move is not None else await self._forget_origin(found, link.target)

    def _moving(
        self, link: Link, chosen: Collection[NamespaceMap], *, is_lost: bool = False
    ) -> AbstractAsyncContextManager[ClientMove]:
        return client_move(
            link,
            self.session,
            chosen,
            timeout_s=self.timeout_s,
            is_forced=self.clients == "force",
            on_step=self.on_step,
            is_lost=is_lost,
        )

    async def _gateways(self, link: Link, chosen: Collection[NamespaceMap]) -> tuple[str, ...]:
        """The gateways whose clients go with the topics."""
        if self.clients == "leave":
            return ()
        async with self._moving(link, chosen) as move:
            return move.gateways

    async def _finish_move(self, verb: Verb, done: Promotion, chosen: tuple[NamespaceMap, ...]) -> Promotion:
        """Serve clients at the target, where the command was interrupted after the release and before that.

        :raises GateNotMet: Records came to the source since, or groups cannot be carried.
        """
        declared, known = await self._look()
        link = declared.link(attaching(known, chosen), self.configuration)
        if link is None or self.clients == "leave":
            return done
        async with self._moving(link, chosen) as move:
            await move.finish()
            if not (move.is_begun and move.gateways):
                return done
            await move.fence()
            found = await self._result("promote", link, chosen, {})
            gates.require_copies(self.name, found.partitions, is_detached=True)
            if found.missing_records_min > self.max_lag:
                raise GateNotMet(
                    f"link {self.name}: {format_count(found.missing_records_min, 'record')} came to the source since "
                    "its namespaces were released",
                    hint=f"isthmus link reattach {self.name}, and give this command again; or leave clients where they "
                    "are: --leave-clients.",
                )
            (link,) = await in_force([link], self.session)
            groups = await self._carry_groups(verb, link, chosen, move, dry_run=False)
            return await self._serve_at_target(replace(done, groups=groups), move)

    async def _serve_at_target(self, found: Promotion, move: ClientMove) -> Promotion:
        """Let the clients of gateways that refuse requests continue at the target."""
        gateways = move.gateways
        paused_s = await move.serve()
        notes = (*found.notes, *map(_unheard_note, move.unheard))
        if move.idle:
            notes = (*notes, _ended_idle_note(move))
        return replace(found, gateways=gateways, aborted_at_source=move.aborted, paused_s=paused_s, notes=notes)

    async def failover(self, *, dry_run: bool = False) -> Promotion:
        """Stop mirroring into the namespaces, whatever the source holds; nothing is written to the source. The
        declarations in its ledger and the ends of its logs are read where it answers within a few seconds.

        :raises ConfigError: There is no such link, or it never attached one of the namespaces.
        :raises GateNotMet: The lanes do not end in time.
        :raises PlanRefused: The link is being recovered; or what is reserved still was not detached by this verb.
        :raises ClusterError: The target does not answer.
        """
        return await self._leave("failover", dry_run=dry_run)

    async def detach(self, *, dry_run: bool = False, is_final: bool = False) -> Promotion:
        """Stop mirroring into the namespaces, and wait until no lane writes to them. They stay reserved. Unless
        `is_final`, topics that are still being filled stay so, as they may be attached again.

        :raises ConfigError: There is no such link, or it never attached one of the namespaces.
        :raises GateNotMet: The lanes do not end in time.
        :raises PlanRefused: The link is being recovered.
        :raises ClusterError: The target does not answer.
        """
        return await self._leave("detach", dry_run=dry_run, is_final=is_final)

    async def _leave(self, verb: Verb, *, dry_run: bool, is_final: bool = True) -> Promotion:
        link, chosen, attached, target = await self._choose(verb)
        if link is None:
            done = Promotion(link=self.name, verb=verb, namespaces=chosen, is_done=True)
            if dry_run or verb == "detach":
                return done
            done = await self._end_left_open(done, target)
            return await self._forget_origin(await self._resume_rescue(done), target)
        is_asked = verb == "failover" or not dry_run
        before = await promised_before(link, self.session, chosen, verb, attached=attached) if is_asked else None
        if not dry_run:
            if attached:
                await keep_promised(
                    self.name, chosen, self.session.client(link.target), self.configuration.ledger, before
                )
            await self._detach(verb, chosen, link)
            if before is not None and verb == "failover":
                before = await self._await_gateways(before, link, time.monotonic(), is_begun=not attached)
            await self._await_lanes_ended(link)
        found = await self._result(verb, link, chosen, {})
        if before is not None:
            found = replace(found, acknowledged=still_missing(before.promised, found.partitions, found.aborted))
        if dry_run:
            return await self._rescue_clients(found, link, dry_run=True) if verb == "failover" else found
        # By then a partition may have a leader: its notes are made again.
        found = await self._let_go(replace(found, notes=()), link, is_final=is_final)
        return found if verb == "detach" else await self._forget_origin(found, link.target)

    async def _await_gateways(
        self, found: PromisedDocument, link: Link, at_s: float, *, is_begun: bool
    ) -> PromisedDocument:
        """Return what gateways had acknowledged up to when they learned of the detachment of `at_s` (monotonic)."""
        self.on_step("waiting until gateways have heard of it")
        detachment = Detachment(at_s, (await self._look())[1].attached_said)
        ledger = self.configuration.ledger
        return await promised_since(found, link, self.session, detachment, ledger, is_begun=is_begun)

    async def _rescue_clients(self, found: Promotion, link: Link, *, dry_run: bool = False) -> Promotion:
        """Serve clients of the lost source at the target, unless names differ, or a part of the link still follows.

        :raises GateNotMet: A gateway that sends heartbeats does not report that it serves them from there.
        """
        if self.clients == "leave":
            return found
        async with self._moving(link, found.namespaces, is_lost=True) as move:
            gateways = tuple(each.described for each in move.stranded)
            if not gateways:
                return found
            _, known = await self._look()
            if why := _why_left_behind(link, gateways, known, found.namespaces):
                return replace(found, notes=(*found.notes, why))
            if not dry_run:
                gateways = await move.serve_without_source(_copied_ends(found))
            return replace(found, gateways=gateways)

    async def _resume_rescue(self, done: Promotion) -> Promotion:
        """Serve clients at the target, where a failover was interrupted after the release and before that."""
        declared, known = await self._look()
        link = declared.link(attaching(known, done.namespaces), self.configuration)
        if link is None:
            return done
        found = await self._result("failover", link, done.namespaces, {})
        rescued = await self._rescue_clients(replace(found, notes=done.notes), link)
        return replace(done, gateways=rescued.gateways, notes=rescued.notes)

    async def _end_left_open(self, done: Promotion, cluster: Cluster) -> Promotion:
        """End the transactions that lanes left open in partitions without a leader when the namespaces were released,
        unless they follow another link by now.
        """
        target = self.session.client(cluster)
        still = partial(self._find_released_topics, done, cluster, target)
        topics, known = await still(), await recollect(self.name, target)
        ended = await finish(target, prepared_commits(self.name, known.documents.values()), topics, still)
        committed = add_transactional_ids(ended.committed, known)
        await keep_committed(self.name, done.namespaces, committed, target, self.configuration.ledger)
        aborted = await abort_mirrored(target, topics, still)
        notes = await self._notes(target, await still(), ended, known)
        documents = known.documents.values()
        return replace(
            done,
            acknowledged=promised_again(documents, done.namespaces),
            committed=(*committed_before(documents, done.namespaces), *committed),
            aborted=add_transactional_ids(aborted, known),
            notes=notes,
        )

    async def _notes(
        self, target: Client, topics: Collection[str], found: Unfinished, known: LinkMemory
    ) -> tuple[Problem, ...]:
        """Return what partitions without a leader leave in doubt."""
        hidden = [_stays_hidden_note(self.name, each) for each in await leaderless(target, topics)]
        unknown = [
            each._replace(transaction=add_transactional_ids([each.transaction], known)[0]) for each in found.unknown
        ]
        return (*hidden, *map(_may_be_committed_note, unknown))

    async def _find_released_topics(self, done: Promotion, cluster: Cluster, target: Client) -> Collection[str]:
        """Return the released topics that follow no link; none while a lane writes to one of them."""
        declared, _ = await self._look()
        maps = [each for link in declared.links.living if link.target.cluster_id == declared.ids[cluster.alias]
                for each in link.maps]  # fmt: skip
        free = [each for each in done.namespaces if not any(each.target.overlaps(other.target) for other in maps)]
        memory, topics = await read_ledger(target), await _topics_of(target, free)
        is_used = any(is_writing(memory.of(link), lambda topic: topic in topics) for link in memory.links)
        return () if is_used else topics

    async def _choose(self, verb: Verb) -> _Chosen:
        declared, known = await self._look()
        alias = declared.alias_of(known.target)
        if alias is None or not declared.is_there(alias):
            # Without its ledger it is unknown what is still reserved there.
            raise away(declared, (known.target,))
        ever = (*known.maps, *known.detached)
        # A detachment releases nothing, so it may take over what another verb let go of.
        own = known.detached if verb == "detach" else known.let_go_by(verb)
        chosen = self.maps or known.maps or reserved_still(declared, known, own)
        for each in chosen:
            if each not in ever:
                raise ConfigError(
                    f"link {self.name} never attached {each}", hint=f"It has {', '.join(map(str, ever)) or 'nothing'}."
                )
        if not chosen:
            others = reserved_still(declared, known, known.detached)
            if not own and (others or verb == "reverse"):
                raise not_let_go(verb, known, others)
            target = self.configuration.cluster(alias).logged_in(known.target_login)
            return _Chosen(None, own or known.detached, attached=(), target=target)
        parts = (chosen, {*known.maps, *chosen})
        link, whole = (declared.link(attaching(known, each), self.configuration) for each in parts)
        if link is None or whole is None:
            raise PlanRefused(
                f"link {self.name} cannot be used here",
                hint=f"isthmus link describe {self.name} states why: both its clusters have to be in the file.",
            )
        (link,) = await in_force([replace(link, groups=whole.groups)], self.session)
        await require_nobody_recovers(self.name, self.session.client(link.target))
        return _Chosen(link, tuple(chosen), tuple(each for each in chosen if each in known.maps), link.target)

    async def _look(self) -> tuple[Declared, Declaration]:
        _, declared = await read_declarations(self.configuration, self.session)
        hint = "A link of the file ends when it is taken out of there."
        return declared, declared.require_link(self.name, hint, deleted=True)

    async def _prove(
        self,
        verb: Verb,
        link: Link,
        chosen: Collection[NamespaceMap],
        move: ClientMove | None,
        *,
        is_attached: bool,
        dry_run: bool,
    ) -> dict[str, str]:
        """Verify that the target holds all records, and that groups stand as at the source; return how they stand."""
        # Clients that are fenced are known not to write.
        quiet_s = self.quiet_s if move is None else min(self.quiet_s, FENCED_QUIET_S)
        await self._await_copied(link, chosen, quiet_s, is_attached=is_attached)
        return await self._carry_groups(verb, link, chosen, move, dry_run=dry_run)

    async def _require_within_reach(self, link: Link, chosen: Collection[NamespaceMap], *, is_attached: bool) -> None:
        """Verify that the target will hold all that the source has now: else clients would wait, and their transactions
        be aborted, for nothing.

        :raises GateNotMet: A lane waits for an operator, or the target does not get there in time, or, where the
            namespaces were detached before, not at all.
        """
        self.on_step(f"waiting until all that {link.source.alias} has by now is copied")
        deadline = Deadline(self.timeout_s)
        source, target = self.session.client(link.source), self.session.client(link.target)
        found = await source_logs(link, source, followed_topics(link, await recollect(self.name, target)))
        # Records behind open transactions follow once these are aborted.
        here = {key: replace(log, end=log.stable_end) for key, log in found.items()}
        while True:
            # In this order: a lane that ends between both looks has copied its last records by the second one.
            may_copy = is_attached or bool(_writing(link, await recollect(self.name, target)))
            left = await left_partitions(link, target, here, source=source)
            gates.require_copies(self.name, left)
            behind = [each for each in left if each.missing_records]
            if self._is_little_enough(behind):
                return
            # Of partitions with unknown ends it is not known that they lack anything.
            missing = [each for each in behind if each.missing_records > 0]
            if not (may_copy or self._is_little_enough(missing)):
                raise gates.left_behind(self.name, chosen, missing)
            if deadline.has_passed:
                raise gates.not_copied(self.name, behind, self.timeout_s)
            await asyncio.sleep(LOOK_S)

    async def _await_copied(
        self, link: Link, chosen: Collection[NamespaceMap], quiet_s: float, *, is_attached: bool
    ) -> None:
        """Wait until the target holds all of the source, and the source was not written to for a while."""
        self.on_step(f"waiting until {link.source.alias} is quiet for {quiet_s:g} s and all of it is copied")
        deadline, quiet_from, before = Deadline(self.timeout_s), time.monotonic(), None
        source, target = self.session.client(link.source), self.session.client(link.target)
        followed = followed_topics(link, await recollect(self.name, target))
        while True:
            # Only the time between two looks counts as quiet, however long each of them takes.
            looked_at, here = time.monotonic(), await source_logs(link, source, followed)
            if here != before:
                quiet_from = time.monotonic()
            moved = [key for key, log in here.items() if before and before.get(key) != log]
            held = [key for key, log in here.items() if log.stable_end < log.end]
            before = here
            left = await left_partitions(link, target, here, source=source)
            behind = [each for each in left if each.missing_records]
            self.on_progress(len(left) - len(behind), len(left))
            is_quiet, is_late = looked_at - quiet_from >= quiet_s, deadline.has_passed
            if is_quiet or is_late:
                gates.require_copies(self.name, left)
                if any(map(gates.is_beyond, left)):
                    # Meanwhile the source may have received the records that the target was seen to have.
                    gates.require_within(self.name, left, await source_logs(link, source, followed))
            does = self._is_little_enough(behind)
            if not (does or is_attached) and (is_quiet or is_late):
                raise gates.left_behind(self.name, chosen, behind)
            if does and is_quiet:
                if held:
                    raise build_undecided(source, held, await owners_in(source, held))
                return
            if is_late and (moved or held or not does):
                # Records written between two looks at a log look like an open transaction.
                if owners := await owners_in(source, held):
                    raise build_undecided(source, held, owners)
                raise (
                    await build_written_to(source, moved)
                    if does
                    else gates.not_copied(self.name, behind, self.timeout_s)
                )
            await asyncio.sleep(LOOK_S)

    def _is_little_enough(self, behind: Iterable[LeftPartition]) -> bool:
        """Whether so little is left to be copied that it may stay behind; an unknown number is too much."""
        missing = [each.missing_records for each in behind]
        return min(missing, default=0) >= 0 and sum(missing) <= self.max_lag

    async def _carry_groups(
        self,
        verb: Verb,
        link: Link,
        chosen: Collection[NamespaceMap],
        move: ClientMove | None,
        *,
        dry_run: bool,
    ) -> dict[str, str]:
        """Carry the positions of all groups over from the source; return how they stand."""
        if not link.groups.is_configured:
            return {}
        self.on_step("carrying the positions of consumer groups")
        deadline = Deadline(self.timeout_s)
        # Positions beyond the copied records cannot be reached; a dry run does not write those that are due.
        passed = {Standing.CATCHING_UP} if self.max_lag else set()
        passed |= {Standing.DUE} if dry_run else set()
        passed |= {Standing.ACTIVE_AT_TARGET} if self.clients == "force" else set()
        while True:
            groups = AsyncGroups(lambda _: (link,), self.configuration.ledger, self.session)
            (plan,) = await (groups.plan() if dry_run else groups.sync())
            found = gates.CarriedGroups(plan.groups, chosen, is_tried=not dry_run)
            in_the_way = found.in_the_way(passed, is_moved=move is not None)
            if plan.problem is None and not in_the_way:
                if verb == "reverse" and move is None:
                    # A consumer that began meanwhile commits behind the positions that were carried.
                    await require_no_members(link, self.session.client(link.source))
                return found.standings
            if deadline.has_passed:
                reason = plan.problem.message if plan.problem else first_few(in_the_way)
                raise GateNotMet(
                    f"link {self.name} has not carried all consumer groups: {reason}",
                    hint="isthmus groups list shows the standing of each.",
                )
            await asyncio.sleep(LOOK_S)

    async def _detach(self, verb: Verb, chosen: Collection[NamespaceMap], link: Link) -> None:
        self.on_step("detaching")
        links = AsyncDeclaredLinks(self.configuration.written, self.session)

        def values(known: Declaration) -> dict[str, Any]:
            # Do not overwrite another verb's claim: that verb may be retried.
            return letting_go(verb, chosen, known) if any(each in known.maps for each in chosen) else {}

        ledger, is_sparing = self.configuration.ledger, verb == "failover"
        # A recovery that ran until now cannot announce a deletion any more, and a later one sees the detachment.
        async with hold_claim(self.session.client(link.target), self.name, ledger, does="lets go of"):
            await links.change(self.name, values, spares_source=is_sparing, even_deleted=True)

    async def _await_lanes_ended(self, link: Link) -> None:
        """Wait until no task writes to the detached namespaces."""
        self.on_step("waiting for the lanes to end")
        target = self.session.client(link.target)
        deadline, calm_from, most, beats = Deadline(self.timeout_s), None, 0, Beats()
        while True:
            known = await recollect(self.name, target)
            writing = len(_writing(link, known))
            most = max(most, writing)
            self.on_progress(most - writing, most)
            if writing and beats.is_gone(known):
                self.on_step("ending the tasks of a controller that is gone")
                await end_leases(self.name, target)
                continue
            if writing:
                calm_from = None
            elif left_nothing(known) and (is_gone(known) or goes_without(known, link.namespaces)):
                return
            else:
                calm_from = calm_from or time.monotonic()
                if time.monotonic() - calm_from >= self.configuration.timings.calm_s:
                    return
            if deadline.has_passed:
                raise GateNotMet(
                    f"link {self.name}: its lanes have not ended within {self.timeout_s:g} s",
                    hint="End the isthmus run that runs it, and run the command again: it ends the remaining tasks.",
                )
            await asyncio.sleep(LOOK_S)

    async def _result(
        self, verb: Verb, link: Link, chosen: tuple[NamespaceMap, ...], groups: Mapping[str, str]
    ) -> Promotion:
        source, target = self.session.client(link.source), self.session.client(link.target)
        known = await recollect(self.name, target)
        followed = followed_topics(link, known)
        if verb == "promote":
            here = await source_logs(link, source, followed)
            partitions = await left_partitions(link, target, here, source=source)
            return Promotion(link=self.name, verb=verb, namespaces=chosen, partitions=partitions, groups=groups)
        seen = await seen_logs(link, source, followed)
        partitions = await left_partitions(link, target, None, seen)
        topics = await _topics_of(target, chosen)
        still_open = add_transactional_ids(await _open_in(target, topics), known)
        committed = committed_before(known.documents.values(), chosen)
        partitions = without_open(partitions, (*still_open, *committed))
        notes: tuple[Problem, ...] = ()
        if verb == "failover":
            doubt = await find_unfinished(target, prepared_commits(self.name, known.documents.values()), topics)
            notes = await self._notes(target, topics, doubt, known)
            committed += add_transactional_ids(doubt.committed, known)
        partitions = await with_transactional_ids(source, known, partitions, asks=seen.logs is not None)
        topics_age_s = 0.0 if seen.has_topics else names_age_s(known, now_ms())
        return Promotion(
            link=self.name,
            verb=verb,
            namespaces=chosen,
            partitions=partitions,
            groups=groups,
            aborted=tuple(each for each in still_open if each not in committed) if verb == "failover" else (),
            committed=committed,
            notes=notes,
            topics_age_s=topics_age_s,
            answering=link.source.alias if seen.is_whole else "",
        )

    async def _let_go(self, found: Promotion, link: Link, *, is_final: bool = True) -> Promotion:
        """Write down the provenance of every topic, and release the namespaces, unless they are only detached."""
        self.on_step("writing down where everything came from")
        target = self.session.client(link.target)
        known = await recollect(self.name, target)
        await write_down(found, target)
        # While the topics are still known as copies, and before others write to them.
        found = await settle_policies(found, link, target, is_final=is_final)
        if found.verb == "detach":
            topics = await _topics_of(target, found.namespaces)
            still_open = add_transactional_ids(await _open_in(target, topics), known)
            return replace(found, notes=(*found.notes, *map(_stays_open_note, still_open)), is_done=True)
        if found.verb == "failover":
            self.on_step("committing transactions that the source has committed")
            prepared = prepared_commits(self.name, known.documents.values())
            topics = await _topics_of(target, found.namespaces)
            done = await finish(target, prepared, topics)
            notes = (*found.notes, *await self._notes(target, topics, done, known))
            committed = add_transactional_ids(done.committed, known)
            await keep_committed(self.name, found.namespaces, committed, target, self.configuration.ledger)
            before = committed_before(known.documents.values(), found.namespaces)
            found = replace(found, committed=(*before, *committed), notes=notes)
        self.on_step("releasing the namespaces")
        namespaces = AsyncNamespaces(link.target, self.session, self.configuration.ledger)
        # Topics last: as long as one is reserved, a repeated verb reports its partitions again.
        released = sorted(found.namespaces, key=lambda each: each.kind == "topic")
        aborted = [open_there for each in released for open_there in await namespaces.release(each.target)]
        found = replace(found, aborted=add_transactional_ids(aborted, known))
        if found.verb == "failover":
            # Up to where logs are the same can be read only while they are recorded as copies.
            found = await self._rescue_clients(found, link)
        return found

    async def _forget_origin(self, found: Promotion, target: Cluster) -> Promotion:
        """Do what remains once all is released; a verb that was interrupted may have left this to its repetition."""
        self.on_step("forgetting that they were copies")
        client, ledger = self.session.client(target), self.configuration.ledger
        await forget_copies(self.name, found.namespaces, client, ledger)
        if found.verb == "failover" and not await _has_silent(client, found.namespaces):
            await keep_promised(self.name, found.namespaces, client, ledger)
        return replace(found, is_done=True)


async def _topics_of(target: Client, maps: Iterable[NamespaceMap]) -> list[str]:
    """Return the topics in these namespaces of the target."""
    spaces = [each.target for each in maps if each.kind == "topic"]
    return [name for name in (await target.metadata(None)).topics if any(each.holds(name) for each in spaces)]


async def _has_silent(target: Client, maps: Iterable[NamespaceMap]) -> bool:
    """Whether a partition in these namespaces has no leader: the command then has to be repeated, and reports all."""
    return bool(await leaderless(target, await _topics_of(target, maps)))


async def _open_in(target: Client, topics: Collection[str]) -> tuple[OpenTransaction, ...]:
    """Return the open transactions in topics, as far as they can be read now: the caller that ends them asks again."""
    with contextlib.suppress(ClusterError):
        return await transactions_in(target, topics)
    return ()


def _writing(link: Link, known: LinkMemory) -> Collection[LaneKey]:
    """Return the lanes into topics of a link that a task may still write."""
    return writing_lanes(known, lambda topic: link.topics.source_of(topic) is not None)


def _stays_hidden_note(link: str, key: PartitionKey) -> Problem:
    """Note that open transactions of a partition could not be read."""
    topic, partition = key
    return Problem(
        f"{topic}-{partition} has no leader: a transaction of the source may stay open there, and consumers at "
        "read_committed wait behind it",
        f"Once it has one: isthmus link failover {link} again, which ends the open transactions there.",
    )


def _may_be_committed_note(found: MaybeCommitted) -> Problem:
    """Note that what is aborted in a partition may be committed in others."""
    silent = found.silent_in_words
    return Problem(
        found.in_words,
        f"Give the failover when {silent} has a leader, if you can wait; else its records are in {silent} only, if it "
        "was committed.",
    )


def _stays_open_note(transaction: OpenTransaction) -> Problem:
    """Note that a detachment ends no transaction."""
    return Problem(
        f"the transaction of {transaction.owner} stays open in {transaction.topic}-{transaction.partition}: consumers "
        "at read_committed wait there",
        "It goes on when the namespace is attached again, and is aborted when that is released.",
    )


def _unheard_note(gateway: str) -> Problem:
    """Note that the state of a gateway is unknown."""
    return Problem(
        f"{gateway} took no requests, and was not heard since",
        "If it runs, its clients wait until it reaches the target and its ledger; its log states the reason.",
    )


def _ended_idle_note(move: ClientMove) -> Problem:
    """Note that transactions without any record in a log were aborted."""
    return Problem(
        f"transactions of {first_few(move.idle)} were aborted at {move.source.cluster.alias} before they had written "
        "any record",
        "Their producers get an error where they are now, and begin again.",
    )


def _why_left_behind(
    link: Link, gateways: Iterable[str], known: Declaration, chosen: Collection[NamespaceMap]
) -> Problem | None:
    """Return why clients do not move, or `None`: they move all together, whatever topics of the link they use."""
    named, there = f"clients of {first_few(gateways)} stay with {link.source.alias}", link.target.alias
    following = [each for each in known.maps if each not in chosen and each.kind != "principal"]
    if following:
        return Problem(
            f"{named}: {first_few(map(str, following))} of {link.name} still follows, and would be refused to them",
            f"They go when the last of these fails over. Until then give those that need it the address of {there}.",
        )
    renamed = [each for each in dict.fromkeys((*chosen, *known.detached)) if each.source.prefix != each.target.prefix]
    if not renamed:
        return None
    return Problem(
        f"{named}: names differ on both sides ({first_few(map(str, renamed))})",
        f"Give them the address of {there}, or of a gateway before it, and the names there.",
    )


def _copied_ends(found: Promotion) -> dict[PartitionKey, int]:
    """Return up to where partitions are copies of the source, by their names there."""
    return {(each.source_topic, each.partition): each.copied_end for each in found.partitions if each.copied_end >= 0}
