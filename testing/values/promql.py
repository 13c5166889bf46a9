"""As much of PromQL as the dashboard and the alert rules use, over scrapes that a test has made. What is not known here
fails loudly: it was not tested then.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float
NAME = "__name__"
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": lambda left, right: left / right if right else math.nan,
}  # fmt: skip
_REDUCTIONS: Mapping[str, Callable[[list[float]], float]] = {
    "sum": sum, "max": max, "min": min, "count": lambda numbers: float(len(numbers)),
}  # fmt: skip


@dataclass(slots=True)
class Scrapes:
    """What was scraped when (s), as Prometheus would keep it."""

    taken: list[tuple[float, Vector]] = field(default_factory=list)

    def add(self, at_s: float, text: str) -> None:
        """One more, of one process."""
        found: Vector = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = {**sample.labels, NAME: sample.name, "instance": "here:9464"}
                key = frozenset(labels.items())
                assert key not in found, f"{sample} is told twice"
                found[key] = sample.value
        self.taken.append((at_s, found))

    @property
    def newest(self) -> Vector:
        return self.taken[-1][1] if self.taken else {}

    def ask(self, query: str) -> Value:
        """What Prometheus would answer now; of a number there is one without labels."""
        return self._value(promql.parse(query))

    def series(self, query: str) -> dict[str, Vector]:
        """By each selector of a query, the series it finds now."""
        found: dict[str, Vector] = {}

        def visit(expr: promql.Expr) -> None:
            if isinstance(expr, promql.VectorSelector):
                found[expr.prettify()] = _selected(self.newest, expr)

        promql.walk(promql.parse(query), visit)
        return found

    def _value(self, expr: Any) -> Value:
        match expr:
            case promql.NumberLiteral():
                return float(expr.val)
            case promql.ParenExpr():
                return self._value(expr.expr)
            case promql.VectorSelector():
                return _selected(self.newest, expr)
            case promql.Call():
                return self._call(expr)
            case promql.AggregateExpr():
                return self._aggregate(expr)
            case promql.BinaryExpr():
                return self._binary(expr)
        raise ValueError(f"{expr.prettify()} is not computed here")

    def _vector(self, expr: Any) -> Vector:
        value = self._value(expr)
        assert isinstance(value, dict), expr.prettify()
        return value

    def _call(self, expr: Any) -> Value:
        name = expr.func.name
        if name == "vector":
            return {frozenset(): float(expr.args[0].val)}
        if name == "absent":
            return {} if self._vector(expr.args[0]) else {frozenset(): 1.0}
        if name in ("rate", "increase"):
            return self._grown(expr.args[0], is_rate=name == "rate")
        if name == "histogram_quantile":
            return _quantiles(float(expr.args[0].val), self._vector(expr.args[1]))
        raise ValueError(f"{name} is not computed here")

    def _grown(self, matrix: Any, *, is_rate: bool) -> Vector:
        """By how much counters grew between the first and the last scrape of the range; not extrapolated."""
        newest_s = self.taken[-1][0]
        taken = [(at_s, found) for at_s, found in self.taken if at_s >= newest_s - matrix.range.total_seconds()]
        grown: Vector = {}
        for labels in _selected(self.newest, matrix.vector_selector):
            values = [(at_s, found[labels]) for at_s, found in taken if labels in found]
            if len(values) >= 2:
                # A counter that is less than before has begun anew.
                steps = [b - a if b >= a else b for (_, a), (_, b) in pairwise(values)]
                elapsed_s = values[-1][0] - values[0][0]
                grown[_nameless(labels)] = sum(steps) / elapsed_s if is_rate else sum(steps)
        return grown

    def _aggregate(self, expr: Any) -> Value:
        vector, op = self._vector(expr.expr), str(expr.op)
        if op == "topk":
            largest = sorted(vector.items(), key=lambda item: -item[1])
            return dict(largest[: int(expr.param.val)])
        names = set(expr.modifier.labels) if expr.modifier else set()
        groups: dict[Labels, list[float]] = {}
        for labels, number in vector.items():
            groups.setdefault(frozenset(item for item in labels if item[0] in names), []).append(number)
        return {labels: _REDUCTIONS[op](numbers) for labels, numbers in groups.items()}

    def _binary(self, expr: Any) -> Value:
        op, left, right = str(expr.op), self._value(expr.lhs), self._value(expr.rhs)
        matching = expr.modifier.matching if expr.modifier else None
        names = set(matching.labels) if matching else None
        if op in ("and", "or", "unless"):
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            mine, theirs = ({_matched(key, names) for key in side} for side in (left, right))
            if op == "or":
                return {**left, **{key: value for key, value in right.items() if _matched(key, names) not in mine}}
            return {key: value for key, value in left.items() if (_matched(key, names) in theirs) == (op == "and")}
        assert isinstance(left, dict), expr.prettify()
        pairs = list(_pairs(left, right, names))
        if op in _COMPARISONS:
            return {key: a for key, a, b in pairs if _COMPARISONS[op](a, b)}
        return {_nameless(key): _ARITHMETIC[op](a, b) for key, a, b in pairs}


def _pairs(left: Vector, right: Value, names: set[str] | None) -> Iterator[tuple[Labels, float, float]]:
    others = {_matched(key, names): value for key, value in right.items()} if isinstance(right, dict) else None
    for key, value in left.items():
        if others is None:
            assert isinstance(right, float)
            yield key, value, right
        elif _matched(key, names) in others:
            yield key, value, others[_matched(key, names)]


def _matched(labels: Labels, names: set[str] | None) -> Labels:
    return _nameless(labels) if names is None else frozenset(item for item in labels if item[0] in names)


def _nameless(labels: Labels) -> Labels:
    return frozenset(item for item in labels if item[0] != NAME)


def _selected(vector: Vector, selector: Any) -> Vector:
    matchers = [(str(m.op), m.name, m.value) for m in selector.matchers.matchers]
    found: Vector = {}
    for labels, number in vector.items():
        told = dict(labels)
        if told[NAME] == selector.name and all(_fits(told.get(name, ""), op, value) for op, name, value in matchers):
            found[labels] = number
    return found


def _fits(told: str, op: str, value: str) -> bool:
    match op.removeprefix("MatchOp."):
        case "Equal":
            return told == value
        case "NotEqual":
            return told != value
        case "Re":
            return re.fullmatch(value, told) is not None
        case "NotRe":
            return re.fullmatch(value, told) is None
    raise ValueError(f"{op} is not computed here")


def _quantiles(wanted: float, buckets: Vector) -> Vector:
    """The upper end of the bucket the quantile lies in, by everything but `le`."""
    by_labels: dict[Labels, list[tuple[float, float]]] = {}
    for labels, number in buckets.items():
        told = dict(labels)
        upper = float(told.pop("le"))
        by_labels.setdefault(frozenset(told.items()), []).append((upper, number))
    found: Vector = {}
    for labels, counts in by_labels.items():
        counts.sort()
        total = counts[-1][1]
        found[labels] = next((upper for upper, count in counts if total and count >= wanted * total), math.nan)
    return found
