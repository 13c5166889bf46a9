"""Conditions of a query on topic, partition, offset and timestamp, which leave fewer ranges to read. Pure.

Spark evaluates them as well, so it is enough that no range is left out which has rows that meet them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from isthmus.kafka.log.reading import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda found, values: found in values,
    "StringStartsWith": lambda found, value: found.startswith(value),
}
_EXACT: Final = ("EqualTo", "EqualNullSafe")


@dataclass(frozen=True, slots=True)
class PushedCondition:
    """A condition on one column: the name of Spark's class of filters for it, as in `GreaterThan`, and its value."""

    column: str
    kind: str
    value: Any
    is_negated: bool = False

    def may_hold(self, found: str | int) -> bool:
        """Return whether rows with this value in the column may meet it."""
        try:
            return _COMPARE[self.kind](found, self.value) != self.is_negated
        except (AttributeError, KeyError, TypeError):
            return True


@dataclass(frozen=True, slots=True)
class Narrowing:
    """All of these conditions together."""

    conditions: tuple[PushedCondition, ...] = ()

    def may_hold(self, topic: str, partition: int) -> bool:
        """Return whether rows of this partition may meet the conditions."""
        place: dict[str, str | int] = {"topic": topic, "partition": partition}
        return all(each.may_hold(place[each.column]) for each in self.conditions if each.column in place)

    def narrow(self, span: OffsetRange) -> OffsetRange:
        """Return the part of a range whose offsets may meet the conditions; it may be empty."""
        begin, end = span.offset_begin, span.offset_end
        for kind, values in self._numbers("offset"):
            if kind in (*_EXACT, "In"):
                begin, end = max(begin, min(values)), min(end, max(values) + 1)
            elif kind.startswith("Greater"):
                begin = max(begin, values[0] + (kind == "GreaterThan"))
            elif kind.startswith("Less"):
                end = min(end, values[0] + (kind == "LessThanOrEqual"))
        return span._replace(offset_begin=begin, offset_end=max(begin, end))

    @property
    def since_ms(self) -> int | None:
        """The earliest timestamp (ms) of rows that may meet the conditions; `None` if any may."""
        found = [
            min(values) + (kind == "GreaterThan")
            for kind, values in self._numbers("timestamp")
            if kind in (*_EXACT, "In") or kind.startswith("Greater")
        ]
        return max(found, default=None)

    def _numbers(self, column: str) -> Iterator[tuple[str, list[int]]]:
        """Yield the conditions on a column whose values are numbers, or times, in ms."""
        for each in self.conditions:
            if each.column != column or each.is_negated:
                continue
            values = each.value if each.kind == "In" else (each.value,)
            numbers = [_number(value, rounds_down=each.kind == "GreaterThan") for value in values]
            known = [number for number in numbers if number is not None]
            if known and len(known) == len(numbers):
                yield each.kind, known


def _number(value: Any, *, rounds_down: bool) -> int | None:
    """Return a whole number, or a time in ms; rows have whole ms, so times between two of them are rounded."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        since = value - _EPOCH
        return since // _MS if rounds_down else -(-since // _MS)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def conditions_of(filters: Iterable[Any]) -> Iterator[PushedCondition]:
    """Yield the conditions that are understood of filters as Spark pushes them down."""
    for each in filters:
        is_negated = type(each).__name__ == "Not"
        inner = each.child if is_negated else each
        path: Sequence[str] = getattr(inner, "attribute", ())
        if len(path) == 1 and hasattr(inner, "value"):
            yield PushedCondition(path[0].lower(), type(inner).__name__, inner.value, is_negated)
