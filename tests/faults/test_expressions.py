"""Whoever of those dies that records pass on their way through Spark's SQL: each record comes once, as it was made."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from isthmus.local import LocalCluster
from testing.records import oracle, topics
from testing.records.topics import Given
from testing.runs.driver import Driver, configured, started

pytestmark = pytest.mark.faults

_AT_ONCE: Final = 50
_PAUSE_S: Final = 0.1
TRANSFORM: Final = {
    "decode": {"value": "json"},
    "where": "value.id % 3 <> 1",
    "set": {"value.made": "uuid()", "headers.partition": "partition"},
}


def order(number: int) -> Given:
    return Given(b"%d" % number, json.dumps({"id": number}).encode(), [], topics.SEPTEMBER + number)


@pytest.mark.parametrize("victims", ["workers", "driver"])
def test_records_pass_once_whatever_is_killed(
    east: LocalCluster,
    west: LocalCluster,
    topic: Callable[[str], str],
    tmp_path: Path,
    chance: random.Random,
    victims: str,
) -> None:
    """No result that was sent is made again: its random identifier would be another one, and there would be two."""
    source, target, name = east, west, topic("expressions")
    topics.create(source, name)
    file = configured(tmp_path / "isthmus.yaml", source, target, name, link=name)
    text = file.read_text().replace("links:\n- ", f"links:\n- transform: {json.dumps(TRANSFORM)}\n  ")
    file.write_text(text)

    is_over, written = threading.Event(), 0

    def write() -> None:
        nonlocal written
        while not is_over.wait(_PAUSE_S):
            topics.produce(source, name, [order(number) for number in range(written, written + _AT_ONCE)])
            written += _AT_ONCE

    writing = threading.Thread(target=write)
    writing.start()
    count = 0
    for place in range(3):
        with started("run", "-c", str(file), log=tmp_path / f"run{place}.log") as driver:

            def has_more(driver: Driver = driver, before: int = count) -> bool:
                assert driver.process.poll() is None
                return sum(map(len, oracle.records(target.bootstrap_servers, name))) > before

            driver.wait_for(has_more)
            if victims == "workers":
                os.kill(chance.choice(driver.workers()), signal.SIGKILL)
                count = sum(map(len, oracle.records(target.bootstrap_servers, name)))
                driver.wait_for(has_more)
            driver.process.kill()
            driver.wait()
        count = sum(map(len, oracle.records(target.bootstrap_servers, name)))
    is_over.set()
    writing.join()
    with started("run", "-c", str(file), "--until", "caught-up", log=tmp_path / "last.log") as driver:
        assert driver.wait() == 0, driver.said

    (got,) = oracle.records(target.bootstrap_servers, name)
    made = [json.loads(each.value or b"") for each in got]
    assert [each["id"] for each in made] == [number for number in range(written) if number % 3 != 1]
    assert len({each["made"] for each in made}) == len(made)
