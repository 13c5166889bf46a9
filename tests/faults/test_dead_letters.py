"""Whoever of those dies that change records and keep dead letters: each record is copied once, or a letter once."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from isthmus.local import LocalCluster
from isthmus.model.links.deadletters import dead_letters_of
from isthmus.model.naming import TargetTopic
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.driver import Driver, configured, started

pytestmark = pytest.mark.faults

_AT_ONCE: Final = 20
_PAUSE_S: Final = 0.1
RULES: Final = '''
import random

def unsteady(rows):
    """Fails for each fourth record, never twice for the same ones."""
    if any(random.random() < 0.25 for _ in range(len(rows))):
        raise ValueError("by chance")
    return rows
'''


@pytest.mark.parametrize("victims", ["workers", "driver"])
def test_records_fail_once_whatever_is_killed(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    tmp_path: Path,
    chance: random.Random,
    victims: str,
) -> None:
    """What became of a record is not decided again, although the function fails for others each time: no record is
    lost, there twice, or copied and a letter.
    """
    name = topic("unsteady")
    where = dead_letters_of(name, TargetTopic(name))
    topics.create(east, name)
    (tmp_path / "rules.py").write_text(RULES)
    file = configured(tmp_path / "isthmus.yaml", east, west, name, link=name)
    transform = {"python": "rules:unsteady", "on_error": "dead-letter"}
    file.write_text(file.read_text().replace("links:\n- ", f"links:\n- transform: {json.dumps(transform)}\n  "))
    is_over, written = threading.Event(), 0

    def write() -> None:
        nonlocal written
        while not is_over.wait(_PAUSE_S):
            given = [Given(b"k", b"%d" % n, [], topics.SEPTEMBER) for n in range(written, written + _AT_ONCE)]
            topics.produce(east, name, given)
            written += _AT_ONCE

    def count() -> int:
        if where not in topics.names(west):
            return 0
        return sum(map(len, oracle.records(west.bootstrap_servers, where, "read_committed")))

    def has_more(driver: Driver, before: int) -> bool:
        assert driver.process.poll() is None
        return count() > before

    writing = threading.Thread(target=write)
    writing.start()
    for place in range(3):
        with started("run", "-c", str(file), log=tmp_path / f"run{place}.log") as driver:
            driver.wait_for(partial(has_more, driver, count()))
            if victims == "workers":
                os.kill(chance.choice(driver.workers()), signal.SIGKILL)
                driver.wait_for(partial(has_more, driver, count()))
            driver.process.kill()
            driver.wait()
    is_over.set()
    writing.join()
    with started("run", "-c", str(file), "--until", "caught-up", log=tmp_path / "last.log") as driver:
        assert driver.wait() == 0, driver.said

    (copied,), (letters,) = (oracle.records(west.bootstrap_servers, each, "read_committed") for each in (name, where))
    numbers = [int(each.value or b"") for each in copied]
    failed = [int(each.value or b"") for each in letters]
    assert numbers == sorted(numbers)
    assert failed
    assert sorted([*numbers, *failed]) == list(range(written))
