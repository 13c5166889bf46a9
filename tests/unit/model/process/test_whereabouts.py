"""When a process is known to be dead, and when nothing can be concluded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isthmus.model.process.whereabouts import UNKNOWN, Liveness, Whereabouts, liveness

THERE = Whereabouts(host="host", host_id="boot pid:[1] host", pid=4711, process_start=100)
HERE = Whereabouts(host="host", host_id="boot pid:[1] host", pid=12, process_start=900)


@pytest.mark.parametrize(
    ("start", "expected"),
    [(100, Liveness.ALIVE), (None, Liveness.DEAD), (101, Liveness.DEAD), (UNKNOWN, Liveness.UNKNOWN)],
)
def test_on_the_same_host_pid_and_start_tell(start: int | None, expected: Liveness) -> None:
    """A pid that nobody has, or that was given to a younger process, says that the older one is dead."""
    assert liveness(THERE, HERE, start) is expected


@pytest.mark.parametrize(
    "process",
    [
        replace(THERE, host_id="boot pid:[2] host"),
        replace(THERE, host_id="other pid:[1] host"),
        replace(THERE, host_id=""),
        replace(THERE, process_start=UNKNOWN),
        replace(THERE, pid=0),
        Whereabouts(),
    ],
)
@pytest.mark.parametrize("start", [None, UNKNOWN, 100, 101])
def test_of_another_host_nothing_is_concluded(process: Whereabouts, start: int | None) -> None:
    """Another boot, another pid namespace, or a process that did not say who it is: it may well run."""
    assert liveness(process, HERE, start) is Liveness.UNKNOWN


@pytest.mark.parametrize("start", [None, UNKNOWN, 100])
def test_hosts_without_an_identity_are_never_the_same(start: int | None) -> None:
    """Two that could not tell who they are have nothing in common."""
    assert liveness(replace(THERE, host_id=""), replace(HERE, host_id=""), start) is Liveness.UNKNOWN
