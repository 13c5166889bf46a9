"""Which leases share a task and when it is started, with tasks that end as a test has them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.errors import HostError
from isthmus.model.process.receipt import Ending, Receipt
from isthmus.model.trees.tree import Tree, node_of
from isthmus.spark.leases import slots
from isthmus.spark.leases.jobs import JobFailed
from isthmus.spark.leases.lease import LeaseSpec
from isthmus.spark.leases.slots import AHEAD_S, COMPANY_S, GATHER_S, PATIENCE_S, STUCK_S, TaskSlots, Ticket
from testing.patience import TERM_S
from testing.values.leases import CONTEXT, Jobs


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Started(Jobs):
    """Spark, that keeps each task's leases apart. `given_up` are the tasks that were cancelled, `stuck` those that do
    not end then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[tuple[str, tuple[LeaseSpec, ...]]] = []
        self.given_up: list[str] = []
        self.stuck: set[str] = set()

    def start(self, _: object, specs: Sequence[LeaseSpec], *rest: object) -> asyncio.Future[tuple[Receipt, ...]]:
        self.tasks.append((str(rest[0]), tuple(specs)))
        return super().start(_, specs, *rest)

    async def cancel(self, _: object, names: Sequence[str]) -> None:
        self.given_up += names

    async def is_active(self, _: object, name: str) -> bool:
        return name in self.stuck

    @property
    def links(self) -> list[list[str]]:
        """The links of each task."""
        return [[spec.context.link for spec in specs] for _, specs in self.tasks]

    def finish(self, task: int) -> None:
        """A task ends: all of its leases have."""
        specs = self.tasks[task][1]
        self.futures[task].set_result(
            tuple(Receipt(slot=s.slot, generation=s.generation, ending=Ending.TERM) for s in specs)
        )


class Stage:
    """Slots with a clock of their own, and what was asked of them by link."""

    def __init__(self, count: int, links: Sequence[str], jobs: Started, clock: Clock, spare: int) -> None:
        self.jobs, self.clock = jobs, clock
        self.slots = TaskSlots(cast(Any, None), count, links=len(links), term_s=TERM_S, spare=spare)
        self.seats = {link: self.slots.take_seat() for link in links}
        self._generations: dict[str, int] = {}

    def ask(self, link: str, *, is_urgent: bool = True) -> Ticket:
        """Ask for the link's next lease."""
        self._generations[link] = generation = self._generations.get(link, 0) + 1
        spec = LeaseSpec(
            context=replace(CONTEXT, link=link),
            slot=0,
            controller=1,
            generation=generation,
            revision=generation,
            lanes=(),
            ended_through=generation - 1,
            is_clean=True,
            ledger_position=0,
            ledger_topic_id=uuid.UUID(int=3),
        )
        return self.slots.ask(spec, self.seats[link], is_urgent=is_urgent)

    async def later(self, seconds: float) -> None:
        """Time goes on."""
        self.clock.now += seconds
        # What the timer does, which no test waits for.
        self.slots._look_again()
        for _ in range(10):
            await asyncio.sleep(0)


Play = Callable[[Stage], Awaitable[None]]
Run = Callable[..., None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a play for so many slots and these links, with tasks in the place of Spark's."""

    def runs(count: int, links: Sequence[str], play: Play, spare: int = 1) -> None:
        jobs, clock = Started(), Clock()
        monkeypatch.setattr(slots, "start_job", jobs.start)
        monkeypatch.setattr(slots, "cancel", jobs.cancel)
        monkeypatch.setattr(slots, "is_active", jobs.is_active)
        monkeypatch.setattr(slots, "time", SimpleNamespace(monotonic=clock.monotonic))

        async def whole() -> None:
            await play(Stage(count, links, jobs, clock, spare))

        asyncio.run(whole())

    return runs


def test_whoever_waits_hears_that_spark_has_ended(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its task never began: it is for the link to end, not to wait for ever."""

    async def play(stage: Stage) -> None:
        waiting = stage.ask("a")

        def gone(*_: object) -> None:
            raise HostError("Spark has ended", hint="Run again.")

        monkeypatch.setattr(slots, "start_job", gone)
        await stage.later(COMPANY_S + 0.1)
        failure = waiting.receipt.exception()
        assert isinstance(failure, JobFailed)
        assert (failure.is_dead, failure.hint) == (True, "Run again.")

    run(2, "abc", play)


def test_links_share_a_task_where_there_are_fewer_slots(run: Run) -> None:
    """All of them run in one, the other slot stays free; what one task may hold in memory is shared."""

    async def play(stage: Stage) -> None:
        for link in "abc":
            stage.ask(link)
        assert stage.jobs.links == [["a", "b", "c"]]
        specs = stage.jobs.tasks[0][1]
        assert {(spec.company, spec.term_s) for spec in specs} == {(3, TERM_S)}
        assert sum(spec.context.limits.bytes_in_flight for spec in specs) <= CONTEXT.limits.bytes_in_flight

    run(2, "abc", play)


def test_all_distributors_of_eight_clusters_fit_two_slots(run: Run) -> None:
    """24 of them run in one task, and the other slot is for the one that succeeds it: nobody waits or is left out."""
    pairs = [[f"c{number}", f"c{number + 1}"] for number in (1, 3, 5, 7)]
    names = [each.name for each in Tree(name="t", root=node_of([pairs[:2], pairs[2:]])).distributors]
    assert len(names) == 24

    async def play(stage: Stage) -> None:
        first = [stage.ask(link) for link in names]
        assert stage.jobs.links == [names]
        specs = stage.jobs.tasks[0][1]
        assert {(spec.company, spec.term_s) for spec in specs} == {(24, TERM_S)}
        first[0].hear(stage.clock.now)
        await stage.later(first[0].successor_at - stage.clock.now)
        for link in names:
            stage.ask(link, is_urgent=False)
        assert [sorted(links) for links in stage.jobs.links] == [sorted(names)] * 2
        assert not any(ticket.must_end for ticket in first)

    run(2, names, play)


def test_links_have_a_task_each_where_there_are_slots(run: Run) -> None:
    """Nobody waits for anybody."""

    async def play(stage: Stage) -> None:
        stage.ask("a")
        assert stage.jobs.links == [["a"]]
        stage.ask("b")
        assert stage.jobs.links == [["a"], ["b"]]

    run(3, "ab", play)


def test_the_first_leases_wait_for_late_links_a_moment(run: Run) -> None:
    """A link whose clusters do not answer keeps the others waiting no longer."""

    async def play(stage: Stage) -> None:
        stage.ask("a")
        stage.ask("b")
        await stage.later(COMPANY_S - 0.1)
        assert stage.jobs.links == []
        await stage.later(0.2)
        assert stage.jobs.links == [["a", "b"]]

    run(2, "abc", play)


def test_a_link_that_comes_later_disturbs_nobody(run: Run) -> None:
    """It takes the free slot, until all are succeeded together."""

    async def play(stage: Stage) -> None:
        stage.slots.leave([stage.seats.pop("c")])
        stage.slots.links = 2
        first = [stage.ask(link) for link in "ab"]
        first[0].hear(stage.clock.now)
        await stage.later(20.0)
        stage.slots.links = 3
        stage.seats["c"] = stage.slots.take_seat()
        late = stage.ask("c")
        await stage.later(GATHER_S)
        assert stage.jobs.links == [["a", "b"], ["c"]]
        late.hear(stage.clock.now)
        assert late.successor_at == first[0].successor_at
        assert stage.jobs.tasks[1][1][0].term_s == pytest.approx(TERM_S - 20.0 - GATHER_S)
        await stage.later(late.successor_at - stage.clock.now)
        for link in "abc":
            stage.ask(link, is_urgent=False)
        # Both slots are in use: they end, and board the task that Spark has got already.
        assert stage.jobs.links[2:] == [["a", "b", "c"]]
        assert [ticket.must_end for ticket in (*first, late)] == [True, True, True]

    run(2, "abc", play)


def test_who_is_down_gets_a_slot_soon(run: Run) -> None:
    """Where none is free all that are to share the slot are succeeded together, and nobody rests for long."""

    async def play(stage: Stage) -> None:
        tickets = {link: stage.ask(link) for link in "abcd"}
        tickets["c"].hear(stage.clock.now)
        for link in "ab":
            tickets[link].receipt.set_result(Receipt(slot=0, generation=1, ending=Ending.FAILED))
            tickets[link] = stage.ask(link)
            await stage.later(GATHER_S)
        tickets["a"].hear(stage.clock.now)
        assert stage.jobs.links == [["a", "b", "c", "d"], ["a"]]
        assert tickets["b"].job is None
        assert min(tickets[link].successor_at for link in "acd") > stage.clock.now
        await stage.later(PATIENCE_S)
        assert max(tickets[link].successor_at for link in "acd") <= stage.clock.now
        for link in "acd":
            await stage.later(GATHER_S)
            assert not any(ticket.must_end for ticket in tickets.values())
            stage.ask(link, is_urgent=False)
        assert stage.jobs.links[2:] == [["b", "a", "c", "d"]]
        assert [tickets[link].must_end for link in "abcd"] == [True, False, True, True]

    run(2, "abcd", play)


def test_links_of_a_lost_slot_share_the_others_for_good(run: Run) -> None:
    """One of the tasks that are left is succeeded with the lease that waits. They do not take turns in its slot."""

    async def play(stage: Stage) -> None:
        tickets = {link: stage.ask(link) for link in "abcd"}
        for ticket in tickets.values():
            ticket.hear(stage.clock.now)
        stage.slots.count = 3
        stage.jobs.finish(0)
        await stage.later(0.0)
        stage.ask("a")
        await stage.later(PATIENCE_S)
        assert [link for link in "bcd" if tickets[link].successor_at <= stage.clock.now] == ["d"]
        stage.ask("d", is_urgent=False)
        assert stage.jobs.links[4:] == [["a", "d"]]
        assert [tickets[link].must_end for link in "bcd"] == [False, False, True]

    run(4, "abcd", play, 0)


def test_a_task_whose_leases_go_on_but_one_is_not_about_to_end(run: Run) -> None:
    """One was told to end, as its group was closed: who waits for a slot does not wait for that task."""

    async def play(stage: Stage) -> None:
        first = {link: stage.ask(link) for link in "ab"}
        for ticket in first.values():
            ticket.hear(stage.clock.now)
        first["a"].call()
        first["a"].receipt.set_result(Receipt(slot=0, generation=1, ending=Ending.REVOKED))
        again = stage.ask("a")
        await stage.later(PATIENCE_S)
        assert first["b"].successor_at <= stage.clock.now
        stage.ask("b", is_urgent=False)
        assert (stage.jobs.links[1:], again.must_end) == ([["a", "b"]], False)

    run(1, "ab", play, 0)


def test_nobody_makes_room_for_a_lease_whose_group_is_about_to_be_closed(run: Run) -> None:
    """Its executor is lost, and its link gives its lanes to others: their leases are not to be disturbed."""

    async def play(stage: Stage) -> None:
        first = {link: stage.ask(link) for link in "ab"}
        for ticket in first.values():
            ticket.hear(stage.clock.now)
        # Both are groups of one link.
        stage.slots.links, stage.slots.count = 1, 1
        stage.jobs.finish(1)
        await stage.later(0.0)
        again = stage.ask("b")
        await stage.later(PATIENCE_S)
        assert (first["a"].must_end, first["a"].successor_at > stage.clock.now) == (False, True)
        stage.slots.leave([stage.seats["b"]])
        await stage.slots.give_up([again])
        await stage.later(PATIENCE_S)
        assert (first["a"].must_end, first["a"].successor_at > stage.clock.now) == (False, True)

    run(2, "ab", play, 0)


def test_a_slot_that_several_tasks_use_apart_is_freed(run: Run) -> None:
    """None of the tasks is to share a slot with the lease that waits: two others are to share one."""

    async def play(stage: Stage) -> None:
        tickets = {link: stage.ask(link) for link in "abcd"}
        for ticket in tickets.values():
            ticket.hear(stage.clock.now)
        stage.slots.count = 3
        stage.jobs.finish(1)
        await stage.later(0.0)
        stage.ask("b")
        await stage.later(PATIENCE_S)
        assert [link for link in "acd" if tickets[link].successor_at <= stage.clock.now] == ["a", "d"]
        for link in "ad":
            stage.ask(link, is_urgent=False)
        assert stage.jobs.links[4:] == [["a", "d"]]
        stage.jobs.finish(0)
        stage.jobs.finish(3)
        await stage.later(0.0)
        assert stage.jobs.links[5:] == [["b"]]
        assert not tickets["c"].must_end

    run(4, "abcd", play, 0)


def test_a_task_is_cancelled_when_nobody_waits_for_any_of_it(run: Run) -> None:
    """A link that gives up its lease takes no other along."""

    async def play(stage: Stage) -> None:
        one, other = (stage.ask(link) for link in "ab")
        await stage.slots.give_up([one])
        assert stage.jobs.given_up == []
        await stage.slots.give_up([other])
        assert stage.jobs.given_up == [stage.jobs.tasks[0][0]]

    run(2, "ab", play)


def test_an_executor_that_stands_still_has_no_slot_until_it_is_back(run: Run) -> None:
    """Spark counts it as long as it hopes to hear from it, and it does not end the task that was cancelled."""

    async def play(stage: Stage) -> None:
        stage.slots._counting = lambda: 2
        first = [stage.ask(link) for link in "ab"]
        stage.jobs.stuck.add(name := stage.jobs.tasks[0][0])
        await stage.slots.give_up([first[0]])
        stage.jobs.futures[0].set_exception(JobFailed("cancelled", is_dead=False))
        await stage.later(STUCK_S + 0.1)
        await stage.slots.recount()
        assert stage.slots.count == 1
        stage.jobs.stuck.remove(name)
        await stage.slots.recount()
        assert stage.slots.count == 2

    run(2, "ab", play, 0)


def test_a_lease_that_waits_for_a_slot_can_be_given_up(run: Run) -> None:
    """It never begins, and so is over."""

    async def play(stage: Stage) -> None:
        ticket = stage.ask("a")
        await stage.slots.give_up([ticket])
        failure = ticket.receipt.exception()
        assert isinstance(failure, JobFailed)
        assert failure.is_dead
        await stage.later(COMPANY_S)
        assert stage.jobs.links == []

    run(2, "ab", play)


def test_what_ends_a_task_ends_all_of_its_leases(run: Run) -> None:
    """But for those whose end is known already."""

    async def play(stage: Stage) -> None:
        one, other = (stage.ask(link) for link in "ab")
        told = Receipt(slot=0, generation=1, ending=Ending.REVOKED)
        one.receipt.set_result(told)
        stage.jobs.futures[0].set_exception(JobFailed("killed", is_dead=True))
        await stage.later(0.0)
        assert one.receipt.result() == told
        assert isinstance(other.receipt.exception(), JobFailed)

    run(2, "ab", play)


def test_slots_that_are_gone_are_shared_by_those_that_were_there(run: Run) -> None:
    """Executors come and go: whoever had a slot comes along with others, and has one again later."""

    async def play(stage: Stage) -> None:
        for link in "ab":
            stage.ask(link)
        assert stage.jobs.links == [["a"], ["b"]]
        stage.slots.count = 2
        stage.jobs.finish(1)
        await stage.later(0.0)
        stage.ask("b")
        await stage.later(GATHER_S)
        assert stage.jobs.links[2:] == [["b"]]
        stage.slots.count = 4
        assert stage.slots.groups_per_link == 2

    run(3, "ab", play)


def test_all_slots_have_leases_where_none_is_kept_free(run: Run) -> None:
    """One that is due ends when Spark has got its successor, which begins in its slot; the others go on."""

    async def play(stage: Stage) -> None:
        first = {link: stage.ask(link) for link in "ab"}
        assert stage.jobs.links == [["a"], ["b"]]
        for ticket in first.values():
            ticket.hear(stage.clock.now)
        await stage.later(first["a"].successor_at - stage.clock.now)
        after = stage.ask("a", is_urgent=False)
        assert stage.jobs.links[2:] == [["a"]]
        assert [first["a"].must_end, first["b"].must_end, after.must_end] == [True, False, False]
        stage.jobs.finish(0)
        await stage.later(0.0)
        after.hear(stage.clock.now)
        assert after.successor_at > first["b"].successor_at
        assert len(stage.jobs.tasks) == 3

    run(2, "ab", play, 0)


def test_a_lease_goes_on_while_another_of_its_task_has_no_successor(run: Run) -> None:
    """Its ledger is away, and it would keep the slot to the end of its term: the partitions of the first would rest."""

    async def play(stage: Stage) -> None:
        first = {link: stage.ask(link) for link in "ab"}
        first["a"].hear(stage.clock.now)
        await stage.later(first["a"].successor_at - stage.clock.now)
        stage.ask("a", is_urgent=False)
        await stage.later(2 * COMPANY_S)
        assert (stage.jobs.links, first["a"].must_end) == ([["a", "b"]], False)
        stage.jobs.finish(0)
        await stage.later(0.0)
        assert stage.jobs.links[1:] == [["a"]]

    run(1, "ab", play, 0)


def test_a_lease_that_was_asked_to_end_keeps_no_other_from_being_succeeded(run: Run) -> None:
    """Its group is closed, or it has no partitions: it needs no successor."""

    async def play(stage: Stage) -> None:
        first = {link: stage.ask(link) for link in "ab"}
        first["a"].hear(stage.clock.now)
        await stage.later(first["a"].successor_at - stage.clock.now)
        first["b"].call()
        stage.ask("a", is_urgent=False)
        await stage.later(COMPANY_S)
        assert (stage.jobs.links[1:], first["a"].must_end) == ([["a"]], True)

    run(1, "ab", play, 0)


def test_a_term_counts_from_the_moment_at_which_a_lease_is_heard(run: Run) -> None:
    """Its task may have waited for the slot, or for a Python: also for those that came along."""

    async def play(stage: Stage) -> None:
        one, other = (stage.ask(link) for link in "ab")
        await stage.later(TERM_S * 2)
        assert [ticket.successor_at for ticket in (one, other)] == [float("inf")] * 2
        one.hear(stage.clock.now)
        due_at = one.successor_at
        assert due_at - stage.clock.now == TERM_S - AHEAD_S
        await stage.later(1.0)
        other.hear(stage.clock.now)
        one.hear(stage.clock.now)
        assert (one.successor_at, other.successor_at) == (due_at, due_at)

    run(1, "ab", play, 0)


def test_a_lease_that_is_to_be_succeeded_at_once_runs_first(run: Run) -> None:
    """Also if it still waits for its slot: it was made before."""

    async def play(stage: Stage) -> None:
        waiting = stage.ask("a")
        waiting.hasten(stage.clock.now)
        await stage.later(COMPANY_S)
        assert waiting.job is not None
        assert waiting.successor_at == float("inf")
        waiting.hear(stage.clock.now)
        assert waiting.successor_at <= stage.clock.now

    run(1, "ab", play, 0)


def test_links_that_share_the_only_slot_are_succeeded_together(run: Run) -> None:
    """None of them ends before all have asked: one that came late would have to wait for a slot."""

    async def play(stage: Stage) -> None:
        first = [stage.ask(link) for link in "ab"]
        assert stage.jobs.links == [["a", "b"]]
        first[0].hear(stage.clock.now)
        await stage.later(first[0].successor_at - stage.clock.now)
        stage.ask("a", is_urgent=False)
        await stage.later(GATHER_S * 2)
        assert [ticket.must_end for ticket in first] == [False, False]
        stage.ask("b", is_urgent=False)
        assert stage.jobs.links[1:] == [["a", "b"]]
        assert [ticket.must_end for ticket in first] == [True, True]

    run(1, "ab", play, 0)


def test_a_lease_without_a_slot_waits_for_one_that_is_free(run: Run) -> None:
    """Its executor is lost, or it came late. If those that it is to share a slot with do not come, a task ends."""

    async def play(stage: Stage) -> None:
        first = [stage.ask(link) for link in "ab"]
        stage.slots.links = 3
        stage.seats["c"] = stage.slots.take_seat()
        stage.ask("c")
        await stage.later(GATHER_S)
        assert len(stage.jobs.tasks) == 2
        await stage.later(PATIENCE_S)
        assert [ticket.must_end for ticket in first] == [False, False]
        await stage.later(PATIENCE_S)
        assert [ticket.must_end for ticket in first] == [True, False]

    run(2, "ab", play, 0)


def test_seats_that_are_left_leave_no_slot_without_leases(run: Run) -> None:
    """Those that are taken are spread over the slots by their order."""

    async def play(stage: Stage) -> None:
        stage.slots.leave([stage.seats.pop("b"), stage.seats.pop("c")])
        stage.slots.links = 2
        for link in "ad":
            stage.ask(link)
        await stage.later(COMPANY_S)
        assert stage.jobs.links == [["a"], ["d"]]

    run(3, "abcd", play)


def test_slots_are_counted_anew() -> None:
    """As Spark says, which does not answer while it ends."""
    found = [3]

    async def scenario() -> None:
        counted = TaskSlots(cast(Any, None), 1, counting=found.pop)
        for _ in range(2):
            await counted.recount()
            assert counted.count == 3
        await TaskSlots(cast(Any, None), 1).recount()

    asyncio.run(scenario())
