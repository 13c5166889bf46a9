"""The end of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from isthmus.errors import GateNotMet, IsthmusError
from isthmus.model.links.progress import LinkProgress
from isthmus.model.problem import exit_code_of, problem_of
from isthmus.model.process.latency import quantile_ms
from isthmus.model.text.plain import Flat, Hidden, PlainValue, computed_field, thousandths

Until = Literal["caught-up", "committed"] | Callable[[tuple[LinkProgress, ...]], bool]
"""When a run is over: once all is copied, but for open transactions or not, or once the function says so."""

_SIGNALLED = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOutcome:
    """How a link stands after a run."""

    progress: Flat[LinkProgress]
    caught_up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome(PlainValue):
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


def _round_to_hundredths(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
