"""What the task of a lease leaves, if it fails by a bug."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from isthmus.ledger.documents.kinds import Document, ProgressDocument, TaskDocument
from isthmus.model.cluster import Cluster
from isthmus.model.lane import LaneKey, LaneReport, LaneState
from isthmus.model.naming import TargetTopic
from isthmus.model.process.receipt import Ending, Receipt
from isthmus.spark.leases import task
from isthmus.spark.leases.task import lease_task
from isthmus.spark.leases.workload import WatchedSelector
from testing.patience import TERM_S


def specified(slot: int, *, company: int) -> SimpleNamespace:
    """What a lease is told, as far as its failure needs it."""
    cluster = Cluster(alias="west", bootstrap_servers=("127.0.0.1:1",))
    context = SimpleNamespace(link="l", source=cluster, target=cluster)
    return SimpleNamespace(slot=slot, generation=4, company=company, controller=1, context=context)


def test_a_bug_is_told_by_the_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by an exception, of which nobody could tell whether the leases of the task are over. Others are not hit."""

    async def run(lease: Any) -> Any:
        if lease._spec.slot:
            raise RuntimeError("this cannot be")
        return "a receipt"

    def begin(lease: Any, spec: Any, watched: object, pipe: None) -> None:
        lease._spec = spec

    monkeypatch.setattr(task.LeaseTask, "__init__", begin)
    monkeypatch.setattr(task.LeaseTask, "run", run)
    specs = [specified(slot, company=1) for slot in (0, 1)]
    receipts: Iterator[Any] = lease_task(cast(Any, specs), [])
    sound, failed = receipts
    assert sound == "a receipt"
    assert (failed.slot, failed.generation, failed.ending) == (1, 4, Ending.FAILED)
    assert (failed.has_written, failed.is_clean, failed.is_released) == (True, False, False)
    assert "this cannot be" in failed.problem.message


def test_a_bug_beside_other_leases_is_told_before_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its driver would hear nothing of it for as long as the others go on, and take it for stuck."""

    async def scenario() -> None:
        told = asyncio.Event()
        receipts: list[Receipt] = []

        async def run(lease: Any) -> Any:
            if lease._spec.slot:
                raise RuntimeError("this cannot be")
            async with asyncio.timeout(TERM_S):
                await told.wait()
            return "a receipt"

        def begin(lease: Any, spec: Any, watched: object, pipe: None) -> None:
            lease._spec = spec

        async def tell(_: object, spec: Any, receipt: Receipt) -> None:
            receipts.append(receipt)
            told.set()

        monkeypatch.setattr(task.LeaseTask, "__init__", begin)
        monkeypatch.setattr(task.LeaseTask, "run", run)
        monkeypatch.setattr(task, "_tell", tell, raising=False)
        _, failed = await task._run_all(cast(Any, [specified(slot, company=2) for slot in (0, 1)]), WatchedSelector())
        assert receipts == [failed]

    asyncio.run(scenario())


@pytest.mark.parametrize("may_write", [True, False])
def test_a_lease_whose_lanes_may_write_is_not_told_to_be_over(
    monkeypatch: pytest.MonkeyPatch, *, may_write: bool
) -> None:
    """If its engine did not stop, a successor that begins at once would be a second writer."""

    async def scenario() -> None:
        told: list[Receipt] = []

        async def run(lease: Any) -> Any:
            lease.may_write = may_write
            raise RuntimeError("this cannot be")

        async def tell(_: object, spec: Any, receipt: Receipt) -> None:
            told.append(receipt)

        monkeypatch.setattr(task.LeaseTask, "__init__", lambda *_: None)
        monkeypatch.setattr(task.LeaseTask, "run", run)
        monkeypatch.setattr(task, "_tell", tell)
        (failed,) = await task._run_all(cast(Any, [specified(1, company=2)]), WatchedSelector())
        assert failed.ending is Ending.FAILED
        assert told == ([] if may_write else [failed])

    asyncio.run(scenario())


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), RuntimeError("nor can this")])
def test_nothing_that_fails_in_one_lease_ends_the_others(
    monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """Neither a connection that was called off under it, nor that its end cannot be told."""

    async def scenario() -> None:
        async def run(lease: Any) -> Any:
            if lease.slot:
                raise RuntimeError("this cannot be") if isinstance(failure, RuntimeError) else failure
            await asyncio.sleep(0)
            return "a receipt"

        async def tell(*_: object) -> None:
            raise failure

        monkeypatch.setattr(task.LeaseTask, "__init__", lambda lease, spec, *_: setattr(lease, "slot", spec.slot))
        monkeypatch.setattr(task.LeaseTask, "run", run)
        monkeypatch.setattr(task, "_tell", tell)
        receipts: list[Any] = await task._run_all(
            cast(Any, [specified(slot, company=2) for slot in (0, 1)]), WatchedSelector()
        )
        sound, failed = receipts
        assert sound == "a receipt"
        assert failed.ending is Ending.FAILED

    asyncio.run(scenario())


def test_a_lease_that_has_ended_proves_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """If what follows its source's ledger fails by a bug, nothing goes on to write marks there beside other leases."""

    async def scenario() -> None:
        left: list[str] = []

        async def fail(*_: object) -> None:
            raise RuntimeError("this cannot be")

        async def prove(*_: object) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                left.append("the mark")

        async def idle(_: object) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(task, "follow", fail)
        monkeypatch.setattr(task, "prove", prove)
        monkeypatch.setattr(task, "Tenure", lambda *_: None)
        for name in ("_follow", "_announce", "_let_go", "_tick", "_report", "_map"):
            monkeypatch.setattr(task.LeaseTask, name, idle)
        lease = cast(Any, task.LeaseTask(cast(Any, specified(1, company=2)), WatchedSelector()))
        lease._lanes = {0: SimpleNamespace(has_allowance=True)}
        lease._source_tail = lease._source_word = lease._source_writer = None
        await lease._run_until_ended()
        assert (left, str(lease._failure)) == (["the mark"], "this cannot be")

    asyncio.run(scenario())


def test_lanes_that_were_taken_away_tell_where_they_end_before_they_are_let_go_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever waits for that, as a failover does, then goes by what they have told."""

    async def scenario() -> None:
        written: list[Document] = []
        has_written = asyncio.Event()

        async def nothing(*_: object, **__: object) -> None: ...

        async def append(changes: list[Document]) -> int:
            written.extend(changes)
            has_written.set()
            return len(written)

        here, gone = (LaneKey(TargetTopic(topic), 0) for topic in ("here", "gone"))
        last = [LaneReport(key=key, state=LaneState.ACTIVE, position=7, records=7) for key in (here, gone)]
        tenure = SimpleNamespace(revision=2, parting=frozenset({gone}), ended_through=0, is_clean=True, beat=5)
        monkeypatch.setattr(task, "Tenure", lambda *_: tenure)
        lease = cast(Any, task.LeaseTask(cast(Any, specified(1, company=1)), WatchedSelector()))
        roster = SimpleNamespace(transits=dict, find_final=lambda _: (), reports=lambda: last, is_clean=True)
        lease._engine = SimpleNamespace(at_rest=nothing, lanes=roster, latency=[])
        lease._maps = SimpleNamespace(save=nothing)
        lease._writer = SimpleNamespace(append=append)
        lease._lanes, lease._has_written = {here: None}, True
        lease._telling.note_reported([replace(each, position=3, records=3) for each in last])
        lease._telling.forget_lanes([gone])
        lease._has_lost.set()
        telling = asyncio.create_task(lease._let_go())
        async with asyncio.timeout(TERM_S):
            await has_written.wait()
        await asyncio.sleep(0)
        telling.cancel()
        progress, said = written
        assert isinstance(progress, ProgressDocument)
        assert isinstance(said, TaskDocument)
        assert [(each.key, each.position) for each in progress.reports] == [(gone, 7)]
        assert said.revision == 2
        left = lease._telling.due(last, lease._lanes, is_full=False)
        assert [each.key for each in left] == [here], "it is told once"

    asyncio.run(scenario())
