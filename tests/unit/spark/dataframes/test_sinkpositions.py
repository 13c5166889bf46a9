"""The positions of a sink: what they allow, and that no order of kills, zombies and repetitions writes a row twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from isthmus.errors import EpochRefused
from isthmus.spark.dataframes.sinkpositions import (
    PARTITIONS,
    SEAL,
    EpochIdentity,
    NamePositions,
    SinkPosition,
    StoredPosition,
    TaskVerdict,
    add_digests,
    check_commit,
    check_epoch,
    check_producers,
    check_rows,
    check_seal,
    decide,
    find_lost,
    is_repeated,
    name_of_key,
    partition_of,
    position_key,
    seal_of,
)

QUERY = "7f3c"
STREAM = EpochIdentity(name="orders", owner=QUERY, epoch=5, job="new", consecutive=True)


def position(epoch: int, task: int = 0, **changes: Any) -> SinkPosition:
    """A complete position of the query."""
    written = SinkPosition(
        task=task, owner=QUERY, epoch=epoch, job="old", transactional_id=f"id-{task}", rows=3, is_complete=True
    )
    return replace(written, **changes)


def stored(*positions: SinkPosition, is_open: bool = False) -> NamePositions:
    return NamePositions(tuple(StoredPosition(each, n, n, 0, is_open) for n, each in enumerate(positions)))


def test_the_next_epoch_is_written_and_the_last_one_skipped() -> None:
    """A task whose position is there has its rows at the target, one without has none there."""
    found = stored(position(4, 0), position(4, 1), position(5, 1))

    assert decide(STREAM, 0, found) is TaskVerdict.WRITE
    assert decide(STREAM, 1, found) is TaskVerdict.SKIP
    assert decide(STREAM, 7, found) is TaskVerdict.WRITE
    assert decide(replace(STREAM, epoch=0), 0, NamePositions()) is TaskVerdict.WRITE


@pytest.mark.parametrize(
    ("identity", "found", "told"),
    [
        (STREAM, stored(position(6)), "epoch 6 is at the target already"),
        (STREAM, stored(position(6), is_open=True), "epoch 6 is at the target already"),
        (STREAM, NamePositions(), "there is none"),
        (STREAM, stored(position(3)), "the last one there is 3"),
        (STREAM, stored(position(4), position(1, owner="other")), "belongs to other"),
        (replace(STREAM, epoch=0), stored(position(0, owner="")), "belongs to a batch write"),
    ],
)
def test_what_contradicts_is_refused(identity: EpochIdentity, found: NamePositions, told: str) -> None:
    """Zombies, older checkpoints, lost positions and a second query of the name write nothing."""
    with pytest.raises(EpochRefused, match=told) as raised:
        decide(identity, 0, found)
    assert raised.value.hint


def test_another_owner_is_taken_over_only_on_demand() -> None:
    """With takeOver a query begins where it is, whatever others have written."""
    taking = replace(STREAM, takes_over=True)

    assert decide(taking, 0, stored(position(9, owner="other"))) is TaskVerdict.WRITE
    assert decide(taking, 0, NamePositions()) is TaskVerdict.WRITE
    with pytest.raises(EpochRefused):
        decide(taking, 0, stored(position(9)))


def test_batches_may_leave_out_epochs() -> None:
    """The epochs of a batch only have to grow."""
    batch = replace(STREAM, owner="", consecutive=False)
    sealed = position(2, SEAL, owner="")

    assert decide(batch, 0, stored(position(2, owner=""), sealed)) is TaskVerdict.WRITE
    assert decide(batch, 0, NamePositions()) is TaskVerdict.WRITE


def test_a_batch_is_completed_before_the_next() -> None:
    """The missing rows of one that was committed in part are not forgotten silently."""
    batch = replace(STREAM, owner="", consecutive=False)
    found = stored(position(3, SEAL, owner=""), position(4, 1, owner=""))

    with pytest.raises(EpochRefused, match=r"epoch 4 before it is there in part"):
        decide(batch, 0, found)
    assert decide(replace(batch, epoch=4), 0, found) is TaskVerdict.WRITE
    assert decide(replace(batch, takes_over=True), 0, found) is TaskVerdict.WRITE
    assert decide(batch, 0, stored(position(4, owner=""), is_open=True)) is TaskVerdict.WRITE


def test_other_rows_are_no_repetition() -> None:
    """Rows that differ are never dropped silently."""
    check_rows(STREAM, position(5), position(5, job="new"))
    with pytest.raises(EpochRefused, match="other rows"):
        check_rows(STREAM, position(5), position(5, digest="ab" * 32))


def test_a_sealed_epoch_may_be_repeated_in_any_split() -> None:
    """The digest of all rows is the same, whichever task they are in."""
    parts = [f"{n:02x}" * 32 for n in (1, 254, 255)]
    first = seal_of(STREAM, [position(5, n, digest=digest) for n, digest in enumerate(parts)])
    second = seal_of(STREAM, [position(5, 0, rows=9, digest=add_digests(reversed(parts)))])
    found = stored(position(4), first)

    assert first.task == SEAL
    assert [decide(STREAM, task, found) for task in (0, 7)] == [TaskVerdict.SKIP] * 2
    check_seal(STREAM, first, second)
    assert check_commit(STREAM, [], [0], stored(position(4), position(5, 1), first)) == []
    with pytest.raises(EpochRefused, match="with other rows"):
        check_seal(STREAM, first, seal_of(STREAM, [position(5)]))
    with pytest.raises(EpochRefused, match="by another run meanwhile"):
        check_commit(STREAM, [position(5, 7, job="new")], [], found)


def test_tasks_of_another_run_keep_an_epoch_from_being_committed() -> None:
    """One that is committed and not among ours is refused, one that is open has to be ended first."""
    ours = position(5, 0, job="new")

    with pytest.raises(EpochRefused, match=r"task 3 .* is at the target already"):
        check_commit(STREAM, [ours], [], stored(position(4), ours, position(5, 3)))
    with pytest.raises(EpochRefused, match=r"task 0 .* was aborted"):
        check_commit(STREAM, [ours], [], stored(position(4)))
    opened = stored(position(4), ours, position(5, 3), is_open=True)
    assert [each.position.task for each in check_commit(STREAM, [ours], [], opened)] == [0, 3]
    assert check_commit(STREAM, [ours], [1], stored(position(4), ours, position(5, 1))) == []


def test_an_attempt_of_the_same_number_is_not_taken_for_another() -> None:
    """A repeated stage counts its attempts from 0 again, and its tasks end the transactions of those before."""
    ours = position(5, 0, job="new")
    found = NamePositions((StoredPosition(ours, 9, 7, 2, is_open=True),))

    assert check_commit(STREAM, [ours], [], NamePositions((*stored(position(4)).stored, *found.stored))) == []
    check_producers(STREAM, {0: (7, 2)}, found)
    with pytest.raises(EpochRefused, match=r"task 0 .* was aborted"):
        check_producers(STREAM, {0: (7, 1)}, found)


def test_keys_and_values_are_read_as_they_were_written() -> None:
    """Names with any character, and a version that is newer than ours."""
    name = 'a "name", [1]'
    assert name_of_key(position_key(name, 3)) == name
    assert name_of_key(b"\xff") is None
    assert SinkPosition.decode(position(5).encode()) == position(5)
    with pytest.raises(EpochRefused, match="newer Isthmus"):
        SinkPosition.decode(b'{"version": 2}')
    with pytest.raises(EpochRefused, match="no position"):
        SinkPosition.decode(b"other")


def test_the_partition_of_a_name_never_changes() -> None:
    """What was written once is looked for in the same place for good."""
    assert [partition_of(name) for name in ("orders", "payments", "")] == [12, 6, 5]
    assert {partition_of(f"name-{n}") for n in range(500)} == set(range(PARTITIONS))


_UNDONE = {"new", "begun"}
_OWN = {"prepared", "seen"}
ROWS = 12
"""The rows of each epoch of the model."""


@dataclass
class ModelTask:
    """A task of a run: what it has prepared, under which producer epoch of its transactional id."""

    number: int
    rows: list[int]
    state: str = "new"
    producer_epoch: int = -1


@dataclass
class ModelRun:
    """A run of the query: its checkpoint's epoch, its tasks, and how far its driver is with committing. Tasks may
    commit by themselves.
    """

    job: str
    epoch: int
    commits: bool = False
    tasks: list[ModelTask] = field(default_factory=list)
    committing: list[ModelTask] | None = None
    is_whole: bool = True


class SinkModel(RuleBasedStateMachine):
    """Runs of one query, of which none knows whether another still lives, in any order of steps.

    The coordinator and the log are as Kafka has them: a producer that was fenced does nothing any more, and a position
    counts with the rows of its transaction. Each run splits the rows of an epoch in its own way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.checkpoint = 0
        self.runs: list[ModelRun] = []
        self.visible: Counter[tuple[int, int]] = Counter()
        self.committed: dict[int, StoredPosition] = {}
        self.open: dict[int, tuple[StoredPosition, list[int]]] = {}
        self.epochs: Counter[int] = Counter()
        self.offset = 0

    def found(self) -> NamePositions:
        return NamePositions((*self.committed.values(), *(each for each, _ in self.open.values())))

    def identity(self, run: ModelRun) -> EpochIdentity:
        return replace(STREAM, epoch=run.epoch, job=run.job)

    def position_of(self, run: ModelRun, task: ModelTask) -> SinkPosition:
        return position(
            run.epoch,
            task.number,
            job=run.job,
            rows=len(task.rows),
            digest=add_digests(sha256(b"%d" % row).hexdigest() for row in task.rows),
        )

    def step(self, run: ModelRun, pick: int) -> None:
        """Have a run do its next step, in any of its tasks; one that is refused is over."""
        try:
            if run.committing is not None:
                self.commit_next(run)
            elif left := [task for task in run.tasks if task.state in _UNDONE or (run.commits and task.state in _OWN)]:
                self.task_step(run, left[pick % len(left)])
            else:
                self.begin_commit(run)
        except EpochRefused:
            self.runs.remove(run)

    def task_step(self, run: ModelRun, task: ModelTask) -> None:
        if task.state in _OWN:
            self.commit_alone(run, task)
            return
        verdict = decide(self.identity(run), task.number, self.found())
        if verdict is TaskVerdict.SKIP:
            if self.found().seal(QUERY, run.epoch) is None:
                check_rows(self.identity(run), self.committed[task.number].position, self.position_of(run, task))
            task.state = "skipped"
        elif not task.rows:
            task.state = "empty"
        elif task.state == "new":
            # InitProducerId: whoever had the transactional id is fenced.
            self.open.pop(task.number, None)
            self.epochs[task.number] += 1
            task.producer_epoch, task.state = self.epochs[task.number], "begun"
        else:
            self.require(task)
            self.offset += 1
            mine = StoredPosition(self.position_of(run, task), self.offset, task.number, task.producer_epoch, True)
            self.open[task.number] = mine, task.rows
            task.state = "prepared"

    def commit_alone(self, run: ModelRun, task: ModelTask) -> None:
        if task.state == "seen":
            self.commit_task(run, task)
            task.state = "committed"
        elif is_repeated(self.identity(run), self.found(), but=task.number):
            task.state = "left"
        elif others := check_commit(
            self.identity(run), [self.position_of(run, task)], [], self.found(), task=task.number
        ):
            self.fence(others[0])
        else:
            task.state = "seen"

    def commit_task(self, run: ModelRun, task: ModelTask) -> None:
        self.require(task)
        mine, rows = self.open.pop(task.number)
        self.committed[task.number] = mine._replace(is_open=False)
        self.visible.update((run.epoch, row) for row in rows)

    def fence(self, other: StoredPosition) -> None:
        self.epochs[other.producer_id] += 1
        self.open.pop(other.producer_id, None)

    def require(self, task: ModelTask) -> None:
        if self.epochs[task.number] != task.producer_epoch:
            raise EpochRefused("fenced")

    def begin_commit(self, run: ModelRun) -> None:
        prepared = [task for task in run.tasks if task.state in ("prepared", "left")]
        skipped = [task.number for task in run.tasks if task.state == "skipped"]
        producers = {task.number: (task.number, task.producer_epoch) for task in prepared}
        lost = find_lost(producers, self.found()) if run.commits and skipped else []
        prepared = [task for task in prepared if task.number not in lost]
        written = [self.position_of(run, task) for task in run.tasks if task in prepared or task.state == "committed"]
        others = check_commit(self.identity(run), written, skipped, self.found())
        if others:
            # One at a time, and the rest when it is seen again.
            self.fence(others[0])
        else:
            check_producers(
                self.identity(run), {n: each for n, each in producers.items() if n not in lost}, self.found()
            )
            run.committing, run.is_whole = prepared, not lost

    def commit_next(self, run: ModelRun) -> None:
        assert run.committing is not None
        if not run.committing:
            if not run.is_whole:
                raise EpochRefused("in part")
            self.seal(run)
            self.checkpoint = max(self.checkpoint, run.epoch + 1)
            self.runs.remove(run)
            assert all(self.visible[run.epoch, row] == 1 for row in range(ROWS)), "rows were lost"
            return
        self.commit_task(run, run.committing.pop(0))

    def seal(self, run: ModelRun) -> None:
        wanted = seal_of(self.identity(run), [self.position_of(run, task) for task in run.tasks])
        if (known := self.found().seal(QUERY, run.epoch)) is not None:
            check_seal(self.identity(run), known, wanted)
        else:
            check_epoch(self.identity(run), self.found())
            self.offset += 1
            self.committed[SEAL] = StoredPosition(wanted, self.offset, -1, -1, False)

    @precondition(lambda self: len(self.runs) < 3)
    @rule(tasks=st.integers(1, 4), behind=st.integers(0, 1), shift=st.sampled_from([0, 0, 0, 1]), commits=st.booleans())
    def start(self, tasks: int, behind: int, shift: int, commits: bool) -> None:
        """A run starts, perhaps on an older copy of the checkpoint, with its own number of tasks, which may commit by
        themselves.
        """
        epoch = max(self.checkpoint - behind, 0)
        split = [ModelTask(n, [row for row in range(ROWS) if (row + shift) % tasks == n]) for n in range(tasks)]
        self.runs.append(ModelRun(f"job-{self.offset}-{len(self.runs)}-{id(split)}", epoch, commits, split))

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 2), steps=st.integers(1, 12), pick=st.integers(0, 3))
    def go_on(self, which: int, steps: int, pick: int) -> None:
        """A run does some steps."""
        run = self.runs[which % len(self.runs)]
        for _ in range(steps):
            if run in self.runs:
                self.step(run, pick)

    @precondition(lambda self: self.runs)
    @rule(which=st.integers(0, 2))
    def kill(self, which: int) -> None:
        """A run ends in the middle of what it does; what it has prepared stays open."""
        self.runs.pop(which % len(self.runs))

    @rule()
    def time_out(self) -> None:
        """The coordinator aborts what was open for too long, and fences its producer."""
        for number in list(self.open):
            self.epochs[number] += 1
            del self.open[number]

    @invariant()
    def nothing_is_there_twice(self) -> None:
        """The one thing that counts."""
        assert max(self.visible.values(), default=1) == 1


SinkModel.TestCase.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
TestSinkModel = SinkModel.TestCase
