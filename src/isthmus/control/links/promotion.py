"""A follower becomes a leader of its own: after the source, in good order (promote), or without it (failover).

Each step can be done again: whoever repeats a verb that was interrupted goes on where that one ended. First the proof,
then the namespaces are detached, then the lanes end, and only when none can write any more is the namespace released.
Last of all it is forgotten that its topics were copies: until then a repeated verb can carry groups into them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from isthmus.control.clusters.namespaces import AsyncNamespaces
from isthmus.control.groups.links import AsyncGroups
from isthmus.control.links import gates
from isthmus.control.links.attaching import away
from isthmus.control.links.claiming import claimed
from isthmus.control.links.declarations import looked
from isthmus.control.links.declared import Declared
from isthmus.control.links.declaring import AsyncDeclaredLinks
from isthmus.control.links.ending import end_leases
from isthmus.control.links.filtering import in_force
from isthmus.control.links.forgetting import forget_copies
from isthmus.control.links.hearing import Beats, is_gone
from isthmus.control.links.leaving import (
    left_partitions,
    names_age_s,
    seen_logs,
    source_logs,
    with_transactional_ids,
    write_down,
    writing_lanes,
)
from isthmus.control.links.memory import now_ms, recollect
from isthmus.control.links.operators import require_nobody_recovers
from isthmus.control.links.resuming import attaching, is_reversed, not_let_go, reserved_still
from isthmus.control.links.reversing import await_reserved, require_no_members, settings_back
from isthmus.control.links.writers import owners_in, undecided, written
from isthmus.control.pool import ClusterPool
from isthmus.errors import ConfigError, GateNotMet, PlanRefused
from isthmus.model.carrying import Standing
from isthmus.model.cluster import Cluster
from isthmus.model.configuration import Configuration
from isthmus.model.declaration import Declaration, letting_go
from isthmus.model.link import Link
from isthmus.model.namespace import NamespaceMap
from isthmus.model.promotion import LeftPartition, Promotion, Verb
from isthmus.model.wording import counted, first_few
from isthmus.wire.client import Client

OnStep = Callable[[str], None]
OnProgress = Callable[[int, int], None]
"""How many partitions are through with the present step, of how many."""
LOOK_S: Final = 0.5


class _Meant(NamedTuple):
    """The link as far as the namespaces go that a verb is meant for, with all its groups; these namespaces, and whether
    any of them is attached still. No link where all that the verb let go of was released before.
    """

    link: Link | None
    maps: tuple[NamespaceMap, ...]
    is_attached: bool
    target: Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoter:
    """Promotes namespaces of one declared link, those that `maps` name or all.

    `quiet_s` is for how long nobody may have written to the source, `timeout_s` how long any wait may take. Of the
    source's records `max_lag` in all may be left behind by a promotion; by failover any number.
    """

    configuration: Configuration
    name: str
    maps: tuple[NamespaceMap, ...] = ()
    quiet_s: float = 5.0
    timeout_s: float = 60.0
    max_lag: int = 0
    on_step: OnStep = lambda _: None
    on_progress: OnProgress = lambda _, __: None

    async def reverse(self, link: str, *, dry_run: bool = False) -> Promotion:
        """Promote all of it, and have the source follow the target from then on, by a new link of the name `link`.

        :raises ConfigError: There is no such link.
        :raises GateNotMet: As `promote`, or consumers are at work at the source.
        :raises PlanRefused: Somebody recovers the link, nothing is attached that could be reversed, or a filter is a
            regular expression and names differ on both sides; or the new link cannot be created: the namespaces are
            promoted, and a repeated call goes on.
        :raises ClusterError: A cluster does not answer.
        """
        if self.maps:
            raise ConfigError("a link is reversed as a whole", hint="Promote a part of it: isthmus link promote --map.")
        declared, known = await self._look()
        if is_reversed(declared, known, link):
            if declared.behind(known) and not dry_run:
                # It was interrupted while it said that the link is deleted.
                links = AsyncDeclaredLinks(self.configuration.written)
                await links.change(self.name, lambda _: {}, even_deleted=True)
            return Promotion(link=self.name, verb="reverse", namespaces=known.let_go_by("reverse"), is_done=True)
        former, chosen, *_ = await self._meant("reverse")
        # All that this verb lets go of, whatever was detached before and whatever is released by now.
        maps = known.maps or known.let_go_by("reverse")
        target = self.configuration.cluster(declared.alias_of(known.target) or known.target.alias)
        # What cannot be said of the way back is found before anything changes.
        settings = await settings_back(known, maps, target)
        if former is not None:
            await require_no_members(former)
            leaders, ledger = {each.source for each in chosen}, self.configuration.ledger
            await await_reserved(former.source, leaders, ledger, timeout_s=self.timeout_s, on_step=self.on_step)
        found = replace(await self._promote("reverse", dry_run=dry_run), verb="reverse")
        if dry_run:
            return found
        self.on_step(f"creating link {link}")
        links, known = AsyncDeclaredLinks(self.configuration.written), (await self._look())[1]
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
        """Have the namespaces follow no more, once they hold all that the source has and nobody writes there.

        :raises ConfigError: There is no such link, or it never attached one of the namespaces.
        :raises GateNotMet: It lags, a lane waits for an operator, somebody writes to the source, or groups are not
            carried; nothing was changed but positions of groups, unless what it says came after the proof.
        :raises PlanRefused: Somebody recovers the link; or nothing is attached, and what is reserved still was not
            detached by this verb.
        :raises ClusterError: A cluster does not answer.
        """
        return await self._promote("promote", dry_run=dry_run)

    async def _promote(self, verb: Verb, *, dry_run: bool) -> Promotion:
        link, chosen, is_attached, target = await self._meant(verb)
        if link is None:
            done = Promotion(link=self.name, verb="promote", namespaces=chosen, is_done=True)
            return done if dry_run else await self._through(done, target)
        groups: dict[str, str] = {}
        if is_attached or dry_run:
            # The promise is kept before anything changes.
            groups = await self._proven(verb, link, chosen, is_attached=is_attached, dry_run=dry_run)
        if dry_run:
            return await self._result("promote", link, chosen, groups)
        await self._detach(verb, chosen, link)
        await self._ended(link)
        if not is_attached:
            # It was detached before, nobody knows how long ago: what it holds by now, nothing being on its way, counts.
            groups = await self._proven(verb, link, chosen, is_attached=False, dry_run=False)
        found = await self._result("promote", link, chosen, groups)
        gates.require_copies(self.name, found.partitions, is_detached=True)
        if (late := found.missing_records_min) > self.max_lag:
            raise GateNotMet(
                f"link {self.name}: {counted(late, 'record')} came to the source after it was quiet",
                hint=f"Stop its producers, isthmus link reattach {self.name}, and promote it again.",
            )
        if is_attached:
            # What was committed at the source while the lanes ended counts as well.
            found = replace(found, groups=await self._carried(verb, link, chosen, dry_run=False))
        return await self._let_go(found, link)

    async def failover(self, *, dry_run: bool = False) -> Promotion:
        """Have the namespaces follow no more, whatever the source holds: nothing is written there. What is declared is
        read from its ledger too, and where its logs end, where it answers within a few seconds.

        :raises ConfigError: There is no such link, or it never attached one of the namespaces.
        :raises GateNotMet: The lanes do not end in time.
        :raises PlanRefused: Somebody recovers the link; or what is reserved still was not detached by this verb.
        :raises ClusterError: The target does not answer.
        """
        return await self._leave("failover", dry_run=dry_run)

    async def detach(self, *, dry_run: bool = False) -> Promotion:
        """Have the namespaces follow no more, and wait until nothing writes to them. They stay reserved.

        :raises ConfigError: There is no such link, or it never attached one of the namespaces.
        :raises GateNotMet: The lanes do not end in time.
        :raises PlanRefused: Somebody recovers the link.
        :raises ClusterError: The target does not answer.
        """
        return await self._leave("detach", dry_run=dry_run)

    async def _leave(self, verb: Verb, *, dry_run: bool) -> Promotion:
        link, chosen, _, target = await self._meant(verb)
        if link is None:
            done = Promotion(link=self.name, verb=verb, namespaces=chosen, is_done=True)
            return done if dry_run or verb == "detach" else await self._through(done, target)
        if not dry_run:
            await self._detach(verb, chosen, link)
            await self._ended(link)
        found = await self._result(verb, link, chosen, {})
        return found if dry_run else await self._let_go(found, link)

    async def _meant(self, verb: Verb) -> _Meant:
        declared, known = await self._look()
        alias = declared.alias_of(known.target)
        if alias is None or not declared.is_there(alias):
            # Without its ledger nobody knows what is reserved there still.
            raise away(declared, (known.target,))
        ever = (*known.maps, *known.detached)
        # A detachment releases nothing, so that it may take what another verb let go of.
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
            return _Meant(None, own or known.detached, is_attached=False, target=target)
        parts = (chosen, {*known.maps, *chosen})
        link, whole = (declared.link(attaching(known, each), self.configuration) for each in parts)
        if link is None or whole is None:
            raise PlanRefused(
                f"link {self.name} cannot be used here",
                hint=f"isthmus link describe {self.name} says why: both its clusters have to be in the file.",
            )
        async with ClusterPool() as pool:
            (link,) = await in_force([replace(link, groups=whole.groups)], pool)
            await require_nobody_recovers(self.name, pool.client(link.target))
        return _Meant(link, tuple(chosen), any(each in known.maps for each in chosen), link.target)

    async def _look(self) -> tuple[Declared, Declaration]:
        async with looked(self.configuration) as (_, declared):
            known = declared.links.get(self.name)
        if known is None:
            hint = "A link of the file ends when it is taken out of there."
            raise declared.unknown("link", [each.name for each in declared.living], self.name, hint)
        return declared, known

    async def _proven(
        self, verb: Verb, link: Link, chosen: Collection[NamespaceMap], *, is_attached: bool, dry_run: bool
    ) -> dict[str, str]:
        """See that the target holds all, and that groups stand there as at the source; how they do."""
        await self._caught_up(link, chosen, is_attached=is_attached)
        return await self._carried(verb, link, chosen, dry_run=dry_run)

    async def _caught_up(self, link: Link, chosen: Collection[NamespaceMap], *, is_attached: bool) -> None:
        """Wait until the target holds all of the source, which nobody has written to for a while."""
        self.on_step(f"waiting until {link.source.alias} is quiet for {self.quiet_s:g} s and all of it is copied")
        deadline, quiet_from, before = time.monotonic() + self.timeout_s, time.monotonic(), None
        async with Client(link.source) as source, Client(link.target) as target:
            while True:
                # Quiet is what lies between two looks, however long each of them takes.
                looked_at, here = time.monotonic(), await source_logs(link, source)
                if here != before:
                    quiet_from = time.monotonic()
                moved = [key for key, log in here.items() if before and before.get(key) != log]
                held = [key for key, log in here.items() if log.stable_end < log.end]
                before = here
                left = await left_partitions(link, target, here)
                behind = [each for each in left if each.missing_records]
                self.on_progress(len(left) - len(behind), len(left))
                is_quiet, is_late = looked_at - quiet_from >= self.quiet_s, time.monotonic() > deadline
                if is_quiet or is_late:
                    gates.require_copies(self.name, left)
                    if any(map(gates.is_beyond, left)):
                        # Meanwhile the source may have got what the target was seen to have.
                        gates.require_within(self.name, left, await source_logs(link, source))
                does = self._does(behind)
                if not (does or is_attached) and (is_quiet or is_late):
                    raise gates.left_behind(self.name, chosen, behind)
                if does and is_quiet:
                    if held:
                        raise undecided(source, held, await owners_in(source, held))
                    return
                if is_late and (moved or held or not does):
                    # What was written between two looks at a log seems to be in a transaction.
                    if owners := await owners_in(source, held):
                        raise undecided(source, held, owners)
                    raise await written(source, moved) if does else gates.not_copied(self.name, behind, self.timeout_s)
                await asyncio.sleep(LOOK_S)

    def _does(self, behind: Iterable[LeftPartition]) -> bool:
        """Whether so little is left to be copied that it may stay behind; what is not known is too much."""
        missing = [each.missing_records for each in behind]
        return min(missing, default=0) >= 0 and sum(missing) <= self.max_lag

    async def _carried(
        self, verb: Verb, link: Link, chosen: Collection[NamespaceMap], *, dry_run: bool
    ) -> dict[str, str]:
        """Have the positions of all groups be those of the source; how they stand."""
        if not link.groups.is_configured:
            return {}
        self.on_step("carrying the positions of consumer groups")
        deadline = time.monotonic() + self.timeout_s
        # Positions behind what stays behind cannot be had; a dry run leaves to be written what is due.
        passed = {Standing.CATCHING_UP} if self.max_lag else set()
        passed |= {Standing.DUE} if dry_run else set()
        while True:
            async with ClusterPool() as pool:
                groups = AsyncGroups(lambda _: (link,), self.configuration.ledger, pool)
                (plan,) = await (groups.plan() if dry_run else groups.sync())
            found = gates.CarriedGroups(plan.groups, chosen, is_tried=not dry_run)
            in_the_way = found.in_the_way(passed)
            if plan.problem is None and not in_the_way:
                if verb == "reverse":
                    # Whoever began meanwhile commits behind what was carried.
                    await require_no_members(link)
                return found.standings
            if time.monotonic() > deadline:
                reason = plan.problem.message if plan.problem else first_few(in_the_way)
                raise GateNotMet(
                    f"link {self.name} has not carried all consumer groups: {reason}",
                    hint="isthmus groups list says how each of them stands.",
                )
            await asyncio.sleep(LOOK_S)

    async def _detach(self, verb: Verb, chosen: Collection[NamespaceMap], link: Link) -> None:
        self.on_step("detaching")
        links = AsyncDeclaredLinks(self.configuration.written)

        def values(known: Declaration) -> dict[str, Any]:
            # Whoever goes on with what is detached takes it from no other verb, which may be given again too.
            return letting_go(verb, chosen) if any(each in known.maps for each in chosen) else {}

        ledger, is_sparing = self.configuration.ledger, verb == "failover"
        # Who recovered it until now can announce no deletion any more, and who comes later sees that it is detached.
        async with Client(link.target) as target, claimed(target, self.name, ledger, does="lets go of"):
            await links.change(self.name, values, spares_source=is_sparing, even_deleted=True)

    async def _ended(self, link: Link) -> None:
        """Wait until no task writes any more to what was detached."""
        self.on_step("waiting for the lanes to end")
        async with Client(link.target) as target:
            deadline, calm_from, most, beats = time.monotonic() + self.timeout_s, None, 0, Beats()
            while True:
                known = await recollect(self.name, target)
                writing = len(writing_lanes(known, lambda topic: link.topics.source_of(topic) is not None))
                most = max(most, writing)
                self.on_progress(most - writing, most)
                if writing and beats.is_gone(known):
                    self.on_step("ending what a controller left that is gone")
                    await end_leases(self.name, target)
                    continue
                if writing:
                    calm_from = None
                elif is_gone(known):
                    return
                else:
                    calm_from = calm_from or time.monotonic()
                    if time.monotonic() - calm_from >= self.configuration.timings.calm_s:
                        return
                if time.monotonic() > deadline:
                    raise GateNotMet(
                        f"link {self.name}: its lanes have not ended within {self.timeout_s:g} s",
                        hint="End the isthmus run that runs it, and give the command again: it ends what is left.",
                    )
                await asyncio.sleep(LOOK_S)

    async def _result(
        self, verb: Verb, link: Link, chosen: tuple[NamespaceMap, ...], groups: Mapping[str, str]
    ) -> Promotion:
        if verb == "promote":
            async with Client(link.source) as source:
                here = await source_logs(link, source)
            async with Client(link.target) as target:
                partitions = await left_partitions(link, target, here)
            return Promotion(link=self.name, verb=verb, namespaces=chosen, partitions=partitions, groups=groups)
        seen, is_whole = await seen_logs(link)
        async with Client(link.target) as target:
            partitions = await left_partitions(link, target, None, seen)
            if seen is not None:
                partitions = await with_transactional_ids(link, partitions)
            topics_age_s = None if seen is None else 0.0
            if seen is None:
                topics_age_s = names_age_s(await recollect(self.name, target), now_ms())
        return Promotion(
            link=self.name,
            verb=verb,
            namespaces=chosen,
            partitions=partitions,
            groups=groups,
            topics_age_s=topics_age_s,
            answering=link.source.alias if is_whole else "",
        )

    async def _let_go(self, found: Promotion, link: Link) -> Promotion:
        """Write down where everything came from, and release the namespaces, unless they are only detached."""
        self.on_step("writing down where everything came from")
        async with Client(link.target) as target:
            await write_down(found, target)
        if found.verb == "detach":
            return replace(found, is_done=True)
        self.on_step("releasing the namespaces")
        namespaces = AsyncNamespaces(link.target, self.configuration.ledger)
        # Topics last: as long as one is reserved, whoever repeats the verb is told of its partitions again.
        released = sorted(found.namespaces, key=lambda each: each.kind == "topic")
        aborted = [open_there for each in released for open_there in await namespaces.release(each.target)]
        return await self._through(replace(found, aborted=tuple(aborted)), link.target)

    async def _through(self, found: Promotion, target: Cluster) -> Promotion:
        """What is left to do once all is released: a verb that was interrupted may have left it to its repetition."""
        self.on_step("forgetting that they were copies")
        await forget_copies(self.name, found.namespaces, target, self.configuration.ledger)
        return replace(found, is_done=True)
