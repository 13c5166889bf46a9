"""What the mirror says of itself, and where groups stand, looked at again and again."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from confluent_kafka import KafkaException

from soak.history import History
from soak.judge.evidence import PartitionKey
from soak.judge.reading import Ruler
from soak.mirrors.isthmus import LINK, Isthmus
from soak.mirrors.mirror import Mirror
from soak.naming import Names
from soak.positions import Positions, Surveyor
from soak.side import Side

_STATUS_S: Final = 15.0
_GROUPS_S: Final = 4.0
_TERM_S: Final = 10.0
_QUIET_S: Final = 300.0


@contextmanager
def repeated(work: Callable[[], object], every_s: float, name: str) -> Iterator[None]:
    """Do something again and again while the block lasts."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every_s):
            work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class StatusSpy:
    """Calls `isthmus status -o json`, and writes down what it showed. `names` are those of the target."""

    def __init__(self, mirror: Isthmus, history: History, names: Names) -> None:
        self._names = names
        self._mirror = mirror
        self._history = history

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look again and again."""
        with repeated(self.look, _STATUS_S, "status"):
            yield

    def look(self) -> dict[str, Any] | None:
        """Look once, at what was shown, if anything was."""
        begun = self._history.now()
        with suppress(subprocess.TimeoutExpired):
            shown = self._mirror.status()
            links = [each for each in shown or () if each["link"] == LINK]
            if links:
                told = _shortened(links[0], self._names)
                self._history.tell("status", begun=round(begun, 3), **told)
                return told
        return None


class GroupSpy:
    """Asks where groups stand at the target, and where the target ends after that."""

    def __init__(
        self,
        groups: list[str],
        keys: list[PartitionKey],
        source: Side,
        target: Side,
        history: History,
    ) -> None:
        self._groups, self._keys = groups, keys
        self._source, self._target = Surveyor(source), Surveyor(target)
        self._ruler = Ruler(target.servers, target.names)
        self._history = history

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look again and again."""
        try:
            with repeated(self.look, _GROUPS_S, "groups"):
                yield
        finally:
            self._source.close()
            self._target.close()

    def look(self, *, final: bool = False) -> tuple[Positions, Positions]:
        """Look once; the last time at the source too. What was seen there, and at the target."""
        there = self._target.positions(self._groups, self._keys)
        here = self._source.positions(self._groups, self._keys) if final else {}
        try:
            ends = self._ruler.ends({key for each in there.values() for key in each}, term_s=_TERM_S)
        except KafkaException:
            ends = {}
        self._history.tell(
            "positions",
            final=final,
            target=_named(there),
            source=_named(here),
            target_ends={f"{topic}:{partition}": end.high for (topic, partition), end in ends.items()},
        )
        return here, there


def shown_when_quiet(mirror: Mirror) -> list[dict[str, str]]:
    """What is shown of all links, once nothing is to be shown of any, or after long enough."""
    shown: list[dict[str, str]] = []
    until = time.monotonic() + _QUIET_S
    while isinstance(mirror, Isthmus) and time.monotonic() < until:
        shown = [_outline(link) for link in mirror.status() or []]
        if shown and all(link["state"] == "ACTIVE" and not link["problem"] for link in shown):
            break
        time.sleep(1.0)
    return shown


def _outline(link: dict[str, object]) -> dict[str, str]:
    return {"link": str(link["link"]), "state": str(link["state"]), "problem": str(link.get("problem") or "")}


def _named(positions: Positions) -> dict[str, dict[str, int]]:
    return {group: {f"{t}:{p}": offset for (t, p), offset in each.items()} for group, each in positions.items()}


def _shortened(link: dict[str, Any], names: Names) -> dict[str, Any]:
    """What the judge needs of what is shown of a link."""
    partitions = [
        {
            "topic": names.at_source(each["topic"]),
            "partition": each["partition"],
            "state": each["state"],
            "state_age": each["state_age_seconds"],
            "source_end": each["source_end"],
            "source_age": each["source_end_age_seconds"],
            "target_end": each["target_end"],
            "target_age": each["target_end_age_seconds"],
            "copied_end": each.get("copied_end"),
            "lag": each["lag_records"],
            "gaps": [[gap["offset_begin"], gap["offset_end"]] for gap in each["gaps"]],
            "problem": _said(each["problem"]),
        }
        for topic in link["topics"]
        for each in topic["partitions"]
    ]
    topics = [
        {
            "topic": names.at_source(each["topic"]),
            "state": each["state"],
            "problem": _said(each["problem"]),
        }
        for each in link["topics"]
    ]
    groups = [{"group": each["group"], "standing": each["standing"]} for each in link["groups"]]
    return {
        "state": link["state"],
        "controller": link["controller"]["state"],
        "problem": _said(link["problem"]),
        "partitions": partitions,
        "topics": topics,
        "groups": groups,
    }


def _said(problem: dict[str, Any] | None) -> str | None:
    return None if problem is None else str(problem.get("message", problem))
