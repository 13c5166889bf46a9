"""The end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from isthmus.errors import GateNotMet, IsthmusError
from isthmus.model.links.progress import LinkProgress
from isthmus.model.links.rows import TONES, outcome_rows
from isthmus.model.problem import exit_code_of, problem_of
from isthmus.model.process.latency import quantile_ms
from isthmus.model.state import LinkState
from isthmus.model.text.plain import Flat, Hidden, PlainValue, computed_field, thousandths
from isthmus.model.text.shown import ShortTable, ShownAsTable
from isthmus.model.text.wording import format_count

Until = Literal["caught-up", "committed"] | Callable[[tuple[LinkProgress, ...]], bool]
"""When a run is over: once all is copied, but for open transactions or not, or once the function says so."""

_SIGNALLED = 128
_LEFT_MAX = 3
_COLUMNS = ("link", "topic", "partitions", "state", "records", "lag_records", "problem")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOutcome:
    """How a link stands after a run."""

    progress: Flat[LinkProgress]
    caught_up: bool


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunOutcome(PlainValue, ShownAsTable):
    """The end of a run: how the links stand now, and why it ended.

    `caught_up` are the links that copied everything their source had; that is checked only where the run
    `is_to_catch_up`, and ends with it. `errors` are the errors that ended links, by link. `signal` is the number of the
    signal that ended the run, if one did. `latency` is a histogram as in `model.latency`.
    """

    links: Hidden[tuple[LinkProgress, ...]]
    caught_up: Hidden[frozenset[str]] = frozenset()
    is_to_catch_up: Hidden[bool] = False
    errors: Hidden[Mapping[str, IsthmusError]] = field(default_factory=dict)
    signal: Hidden[int | None] = None
    duration_s: Annotated[float, "seconds", thousandths] = 0.0
    latency: Hidden[tuple[int, ...]] = ()

    @computed_field(before="duration_s")
    def is_caught_up(self) -> Annotated[bool, "caught_up"]:
        """Whether everything all links select was copied. Paused, refused and stopped topics were not."""
        return bool(self.links) and all(link.link in self.caught_up for link in self.links)

    @computed_field(before="duration_s")
    def records(self) -> int:
        """Records copied."""
        return sum(link.records for link in self.links)

    @computed_field(before="duration_s")
    def size_bytes(self) -> Annotated[int, "bytes"]:
        """Bytes of record batches copied."""
        return sum(link.size_bytes for link in self.links)

    @property
    def exit_code(self) -> int:
        """0 when all is well, else the code of the reason: see `errors` and `exit_code_of`.

        1 where a problem prevents copying, and the code of `GateNotMet` where the run was to catch up and a part is
        paused.
        """
        if self.signal is not None:
            return _SIGNALLED + self.signal
        if self.errors:
            found = [problem_of(error) for error in self.errors.values()]
            return exit_code_of([*found, *[None] * (len(self.links) - len(found))])
        if any(link.is_unfinished for link in self.links):
            return 1
        return GateNotMet.exit_code if self.is_to_catch_up and not self.is_caught_up else 0

    @computed_field
    def latency_p50_ms(self) -> float | None:
        return _round_to_hundredths(quantile_ms(self.latency, 0.5))

    @computed_field
    def latency_p99_ms(self) -> float | None:
        return _round_to_hundredths(quantile_ms(self.latency, 0.99))

    @computed_field
    def link_outcomes(self) -> Annotated[tuple[LinkOutcome, ...], "links"]:
        """The links, and whether each has caught up."""
        return tuple(LinkOutcome(progress=each, caught_up=each.link in self.caught_up) for each in self.links)

    @property
    def summary(self) -> str:
        """How much was copied in how long, and what was not, on one line."""
        copied = f"{format_count(self.records, 'record')} ({format_count(self.size_bytes, 'byte')})"
        return f"{copied} in {max(self.duration_s, 0.001):,.1f} s{self._ending()}"

    def _ending(self) -> str:
        if not self.is_to_catch_up:
            return ""
        if self.is_caught_up:
            return ", caught up"
        left = [line for link in self.links if link.link not in self.caught_up for line in _list_behind(link)]
        more = f" and {len(left) - _LEFT_MAX} more" if len(left) > _LEFT_MAX else ""
        return ", not caught up" + (f": {'; '.join(left[:_LEFT_MAX])}{more}" if left else "")

    def short_table(self) -> ShortTable:
        return ShortTable(
            title=self.summary,
            columns=_COLUMNS,
            rows=tuple(outcome_rows(self.links)),
            notes=tuple(f"{link} has ended: {problem_of(error).in_full}" for link, error in self.errors.items()),
            tones=TONES,
        )


def _list_behind(link: LinkProgress) -> list[str]:
    """Describe the parts of a link that were not copied."""
    if link.state in (LinkState.FAILED, LinkState.UNAVAILABLE, LinkState.PAUSED):
        return [f"{link.link} is {link.state}, lag {_lag(link.lag_records)}"]
    behind = [t for t in link.topics if t.is_unfinished or t.lag_records != 0 or t.waiting_records > 0]
    return [
        f"{link.link}/{topic.topic} is {topic.state}, lag {_lag(topic.lag_records)}"
        + (f", {topic.waiting_records:,} wait for open transactions" if topic.waiting_records > 0 else "")
        for topic in behind
    ]


def _lag(lag_records: int) -> str:
    return "unknown" if lag_records < 0 else f"{lag_records:,}"


def _round_to_hundredths(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
