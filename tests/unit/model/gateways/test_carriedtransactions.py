"""Transactional producers that ask at another cluster for what they asked for where they were."""

from __future__ import annotations

import pytest

from isthmus.model.gateways.carriedtransactions import (
    CarriedTransaction,
    CarriedTransactions,
    WithinVerdict,
    carried_further,
)

OURS = CarriedTransaction("payments", 5, 1, is_committed=True)


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (OURS, WithinVerdict.COMMITTED),
        (OURS._replace(producer_epoch=2), WithinVerdict.ELSEWHERE),
        (OURS._replace(producer_id=6), WithinVerdict.ELSEWHERE),
        (OURS._replace(transactional_id="orders"), WithinVerdict.ELSEWHERE),
        (OURS._replace(transactional_id="aborted"), WithinVerdict.ELSEWHERE),
    ],
)
def test_whose_commit_it_is(asked: CarriedTransaction, verdict: WithinVerdict) -> None:
    """Only that of the same producer, at the same epoch, is known, and only if it was committed."""
    known = CarriedTransactions([OURS, CarriedTransaction("aborted", 5, 1)], stay=1)

    assert known.judge_commit(asked, 0.0) is WithinVerdict.DOUBTED
    assert known.doubted == {asked.transactional_id}
    known.learn(asked.transactional_id, (-1, -1), 0.1)
    assert known.judge_commit(asked, 0.2) is verdict
    assert not known.doubted


@pytest.mark.parametrize("here", [[], [OURS._replace(producer_id=4)], [OURS._replace(producer_epoch=0)]])
def test_what_this_cluster_knows_counts(here: list[CarriedTransaction]) -> None:
    """What it said is believed for a moment; a transactional id that it knows otherwise than as clients came has begun
    anew there, for good, whichever producer id it has.
    """
    known = CarriedTransactions([OURS], here, stay=1)
    before = here[0].producer if here else (-1, -1)

    known.judge_commit(OURS, 0.0)
    known.learn("payments", before, 1.0)
    assert known.judge_commit(OURS, 5.9) is WithinVerdict.COMMITTED
    assert known.judge("payments", 5, 5.9) is WithinVerdict.ELSEWHERE
    assert not known.doubted
    assert known.judge_commit(OURS, 6.1) is WithinVerdict.DOUBTED
    known.learn("payments", (5, 2), 6.2)
    assert known.judge_commit(OURS, 6.3) is WithinVerdict.HERE
    assert known.judge("payments", 5, 60.0) is WithinVerdict.HERE
    known.learn("payments", before, 6.4)
    assert known.judge("payments", 5, 6.5) is not WithinVerdict.COMMITTED


def test_who_did_nothing_elsewhere_goes_on() -> None:
    """It has the id and epoch that it had here: what it writes passes once that is known."""
    known = CarriedTransactions([OURS], [OURS], stay=2)

    assert known.judge("payments", 5, 0.0) is WithinVerdict.DOUBTED
    known.learn("payments", (5, 1), 1.0)
    assert known.judge("payments", 5, 2.0) is WithinVerdict.HERE
    assert known.judge_commit(OURS, 2.0) is WithinVerdict.HERE


def test_one_that_has_begun_here_through_another_gateway() -> None:
    """What was told before a producer was met says nothing of it; nor does what was told before something newer."""
    known = CarriedTransactions([OURS], stay=1)

    known.judge("payments", 5, 0.0)
    known.learn("payments", (-1, -1), 0.1)
    assert known.judge("payments", 5, 0.2) is WithinVerdict.ELSEWHERE
    assert known.judge("payments", 7, 0.3) is WithinVerdict.DOUBTED
    known.learn("payments", (7, 0), 0.4)
    known.learn("payments", (-1, -1), 0.35)
    assert known.judge("payments", 7, 0.5) is WithinVerdict.HERE
    assert known.judge("payments", 5, 0.5) is WithinVerdict.ELSEWHERE


def test_where_nobody_tells() -> None:
    """What is written passes, and so does a commit that another one has decided: the cluster says if it knows it."""
    known = CarriedTransactions([OURS], stay=1)

    known.judge("payments", 5, 0.0)
    known.learn("payments", None, 0.1)
    assert known.judge("payments", 5, 600.0) is WithinVerdict.HERE
    assert known.judge_commit(OURS._replace(producer_epoch=2), 0.2) is WithinVerdict.HERE
    assert known.judge_commit(OURS, 0.2) is WithinVerdict.HERE
    assert [known.has_committed(each) for each in (OURS, OURS._replace(producer_epoch=2))] == [True, False]


def test_nothing_is_looked_at_where_nobody_came() -> None:
    """A cluster that clients have been at from the beginning knows them all."""
    assert not CarriedTransactions()
    assert CarriedTransactions(stay=1)


@pytest.mark.parametrize(
    ("now", "newest"),
    [
        (CarriedTransaction("payments", 7, 3, is_committed=True), OURS),
        (CarriedTransaction("payments", 7, 4), CarriedTransaction("payments", 7, 4)),
        (CarriedTransaction("payments", 7, 3), CarriedTransaction("payments", 7, 3)),
        (None, OURS),
    ],
)
def test_who_goes_on_without_having_done_anything(now: CarriedTransaction | None, newest: CarriedTransaction) -> None:
    """What a cluster knows of it from an earlier time is not what its client asks about at the next one."""
    met = CarriedTransaction("payments", 7, 3, is_committed=True)
    other = CarriedTransaction("orders", 1, 0)
    found = carried_further([OURS], [met], [other] if now is None else [now, other])
    assert found.known == {"payments": newest, "orders": other}
    assert found.idle == ({"payments"} if newest is OURS else set())


@pytest.mark.parametrize(
    ("asked", "here"),
    [
        (("payments", 5, 1), (7, 3)),
        (("payments", 5, 0), None),
        (("payments", 6, 1), None),
        (("orders", 5, 1), None),
        (("new", 8, 1), None),
    ],
)
def test_who_came_from_there(asked: tuple[str, int, int], here: tuple[int, int] | None) -> None:
    """The newest producer alone: an older one of the same transactional id is fenced there as here."""
    others = [CarriedTransaction("payments", 7, 3), CarriedTransaction("orders", 5, 1)]
    assert CarriedTransactions([OURS, CarriedTransaction("new", 8, 1)], others).known_here(*asked) == here


@pytest.mark.parametrize(
    ("there", "is_back", "is_stale"),
    [
        (CarriedTransaction("payments", 7, 3), True, True),
        (CarriedTransaction("payments", 7, 3), False, False),
        (CarriedTransaction("payments", 5, 1), False, True),
        (CarriedTransaction("idle", 5, 1), True, False),
        (CarriedTransaction("idle", 5, 0), True, True),
        (CarriedTransaction("orders", 5, 1), True, False),
    ],
)
def test_whose_epoch_is_to_be_raised(there: CarriedTransaction, is_back: bool, is_stale: bool) -> None:
    """Who has been elsewhere since, and who has the same producer by chance; not who did nothing meanwhile."""
    idle = CarriedTransaction("idle", 5, 1)
    found = carried_further([idle], [], [OURS])
    assert found.is_stale(there, is_back=is_back) is is_stale
