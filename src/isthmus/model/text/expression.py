"""Regular expressions that match in bounded time, whatever their author wrote. Pure.

Python's `re` backtracks, which never ends for some expressions: `(a+)+b` on thirty `a` takes minutes, and one more
doubles it. An expression that may backtrack so is simulated on all its paths at once instead (Thompson, 1968): a step
for each character and each place in the expression. The result is the same, because only whole names match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from importlib import import_module
from math import prod
from typing import Any, Final, NamedTuple

# The parser of `re` and its opcodes: typeshed leaves both out, and a test compares them with `re`.
op: Any = import_module("re._constants")
parser: Any = import_module("re._parser")

PLACES_MAX: Final = 5_000
"""No sensible expression has more places than this; `{1,1000}` within `{1,1000}` does."""
LENGTH_MAX: Final = 50_000
"""An expression of this length is parsed in a fraction of a second."""
REPEATS_MAX: Final = 1_000
"""The highest fixed number of repeats, as in RE2."""
_STEPS_MAX: Final = 100_000
_RANGES_MAX: Final = 50 << 16
"""Ranges of characters without regard to case are expanded when an expression is compiled, up to 65,536 characters
each.
"""
_MOVES_MAX: Final = 10_000
_WIDE: Final = 128
"""A repeat that may be longer than this counts as one that can end in this many ways: names are short."""
_WAYS_MAX: Final = _WIDE**3
"""This many ways through an expression can still be tried one after the other in a moment."""
_SHORT: Final = 249
"""The longest name of a topic, in characters; those of groups may have 32,767."""
_REPEATS: Final = (op.MAX_REPEAT, op.MIN_REPEAT)
_TOO_OFTEN: Final = f"it repeats something more than {REPEATS_MAX:,} times"
Matches = Callable[[str], bool]
_Test = Callable[[str], bool]
_Tree = Sequence[tuple[Any, Any]]


class Unbounded(Exception):
    """An expression that may never end, and cannot be simulated on all paths; the text names the obstacle."""


class TooLarge(Exception):
    """An expression that is not compiled, as that alone could take for ever; the text names the
    part that is too large.
    """


@lru_cache(maxsize=1024)
def matcher(expression: str) -> Matches:
    """Return a function that decides in bounded time whether an expression of Python's `re` matches a whole name.

    An expression that looks around and repeats more than once matches no name longer than a topic's: its time has no
    bound.

    :raises re.error: It is broken.
    :raises TooLarge: It is too long, too deep, or repeats something too often.
    :raises Unbounded: It goes back and tries again, and looks around or behind too.
    """
    tree = _parse(expression)
    compiled = re.compile(expression)
    nested, ways = _choices(tree, within=False)
    if nested or ways > _WAYS_MAX:
        return build_simulator(expression)
    if ways <= _WIDE:
        return lambda name: compiled.fullmatch(name) is not None
    try:
        long = lru_cache(maxsize=256)(build_simulator(expression))
    except Unbounded:
        return lambda name: len(name) <= _SHORT and compiled.fullmatch(name) is not None
    return lambda name: compiled.fullmatch(name) is not None if len(name) <= _SHORT else long(name)


def build_simulator(expression: str) -> Matches:
    """Return a matcher that always simulates all paths at once, whether or not that is needed.

    :raises TooLarge: As `matcher`.
    :raises Unbounded: It looks around or behind.
    """
    tree = _parse(expression)
    return _Machine(tree, tree.state.flags).matches


def _parse(expression: str) -> Any:
    """Return the parse tree of `re`, after checking that the expression compiles quickly."""
    if len(expression) > LENGTH_MAX:
        raise TooLarge(f"it has more than {LENGTH_MAX:,} characters")
    try:
        tree = parser.parse(expression)
        steps, ranges = _steps(tree), _ranges(tree)
    except OverflowError:
        raise TooLarge(_TOO_OFTEN) from None
    except RecursionError:
        raise TooLarge("it is nested too deep") from None
    if ranges > _RANGES_MAX:
        raise TooLarge("its ranges of characters have too many characters")
    if steps > _STEPS_MAX:
        raise TooLarge(f"it has more than {_STEPS_MAX:,} steps, with all that it repeats")
    return tree


def _steps(tree: _Tree) -> int:
    """Return the length of an expression with all its repeats written out; for an endless repeat, its least."""
    steps = 0
    for kind, argument in tree:
        within = sum(_steps(part) for part in _parts(kind, argument))
        if kind in (*_REPEATS, op.POSSESSIVE_REPEAT):
            least, most, _ = argument
            times = least + 1 if most == op.MAXREPEAT else most
            if max(least, 0 if most == op.MAXREPEAT else most) > REPEATS_MAX:
                raise TooLarge(_TOO_OFTEN)
            within = times * max(1, within)
        elif kind is op.IN:
            within = len(argument)
        steps += 1 + within
    return steps


def _ranges(tree: _Tree) -> int:
    """Return the number of characters in the ranges of an expression."""
    found = 0
    for kind, argument in tree:
        found += sum(_ranges(part) for part in _parts(kind, argument))
        if kind is op.IN:
            found += sum(min(limits[1] - limits[0], 1 << 16) for item, limits in argument if item is op.RANGE)
    return found


def _choices(tree: _Tree, *, within: bool) -> tuple[bool, int]:
    """Return whether there is a choice within a repeat, and how many ways lead through consecutive choices."""
    nested, ways = False, 1
    for kind, argument in tree:
        is_repeat = kind in (*_REPEATS, op.POSSESSIVE_REPEAT)
        is_open = is_repeat and argument[0] != argument[1]
        parts = [_choices(part, within=within or (is_repeat and argument[1] > 1)) for part in _parts(kind, argument)]
        nested = nested or (within and (is_open or kind is op.BRANCH)) or any(inner for inner, _ in parts)
        ways *= min(argument[1] - argument[0] + 1, _WIDE) if is_open else 1
        ways *= (sum if kind is op.BRANCH else prod)(more for _, more in parts)
    return nested, ways


def _parts(kind: Any, argument: Any) -> list[_Tree]:
    """Return the expressions within one."""
    if kind in (*_REPEATS, op.POSSESSIVE_REPEAT):
        return [argument[2]]
    if kind is op.BRANCH:
        return list(argument[1])
    if kind is op.SUBPATTERN:
        return [argument[3]]
    if kind in (op.ASSERT, op.ASSERT_NOT):
        return [argument[1]]
    if kind is op.ATOMIC_GROUP:
        return [argument]
    if kind is op.GROUPREF_EXISTS:
        return [part for part in argument[1:] if part is not None]
    return []


class _Place(NamedTuple):
    """A place in an expression. With `test`, a character that passes it leads on; otherwise the match is at `to` as
    well, if the place between two characters fits.
    """

    to: tuple[int, ...]
    test: _Test | None = None
    fits: Callable[[str, int], bool] | None = None


class _Machine:
    """The simulation of all paths through an expression; `0` is its end."""

    def __init__(self, tree: _Tree, flags: int) -> None:
        self._places: list[_Place] = [_Place(())]
        self._begin = self._sequence(tree, 0, flags)
        self._is_alike = all(each.fits is None for each in self._places)
        """Whether it matters nothing where in a name a character is: then names that begin alike are led alike."""
        self._moves: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        at = self._spread([self._begin], name, 0)
        for index, character in enumerate(name):
            known = self._moves.get((at, character)) if self._is_alike else None
            at = self._move(at, name, index) if known is None else known
            if not at:
                return False
        return 0 in at

    def _move(self, at: frozenset[int], name: str, index: int) -> frozenset[int]:
        character = name[index]
        passed = [self._places[each].to[0] for each in at if self._passes(each, character)]
        moved = self._spread(passed, name, index + 1)
        if self._is_alike:
            if len(self._moves) >= _MOVES_MAX:
                self._moves.clear()
            self._moves[at, character] = moved
        return moved

    def _passes(self, place: int, character: str) -> bool:
        test = self._places[place].test
        return test is not None and test(character)

    def _spread(self, begin: Iterable[int], name: str, index: int) -> frozenset[int]:
        """Return all places that are reached without another character."""
        found, waiting = set[int](), list(begin)
        while waiting:
            each = waiting.pop()
            if each in found:
                continue
            found.add(each)
            place = self._places[each]
            if place.test is None and (place.fits is None or place.fits(name, index)):
                waiting.extend(place.to)
        return frozenset(found)

    def _add(self, place: _Place) -> int:
        if len(self._places) >= PLACES_MAX:
            raise Unbounded("a repetition in it is repeated too often")
        self._places.append(place)
        return len(self._places) - 1

    def _sequence(self, tree: _Tree, then: int, flags: int) -> int:
        for kind, argument in reversed(list(tree)):
            then = self._one(kind, argument, then, flags)
        return then

    def _one(self, kind: Any, argument: Any, then: int, flags: int) -> int:
        if kind in _REPEATS:
            least, most, part = argument
            return self._repeat(least, most, part, then, flags)
        if kind is op.BRANCH:
            return self._add(_Place(tuple(self._sequence(part, then, flags) for part in argument[1])))
        if kind is op.SUBPATTERN:
            _, more, fewer, part = argument
            return self._sequence(part, then, (flags | more) & ~fewer)
        if kind is op.AT and argument in _POSITIONS:
            if flags & re.MULTILINE:
                raise Unbounded("it looks at lines")
            return self._add(_Place((then,), fits=_POSITIONS[argument]))
        test = _test(kind, argument, flags)
        if test is None:
            raise Unbounded("it looks around, or back at what it has found")
        return self._add(_Place((then,), test=test))

    def _repeat(self, least: int, most: int, part: _Tree, then: int, flags: int) -> int:
        if most == op.MAXREPEAT:
            loop = self._add(_Place(()))
            self._places[loop] = _Place((self._sequence(part, loop, flags), then))
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = self._add(_Place((self._sequence(part, then, flags), end)))
        for _ in range(least):
            then = self._sequence(part, then, flags)
        return then


_POSITIONS: Final[dict[Any, Callable[[str, int], bool]]] = {
    op.AT_BEGINNING: lambda _, index: index == 0,
    op.AT_BEGINNING_STRING: lambda _, index: index == 0,
    op.AT_END: lambda name, index: index == len(name) or (index == len(name) - 1 and name[index] == "\n"),
    op.AT_END_STRING: lambda name, index: index == len(name),
}
_CATEGORIES: Final = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _test(kind: Any, argument: Any, flags: int) -> _Test | None:
    """Return a test for the characters that a part of an expression names; `None` for other parts."""
    if kind is op.ANY:
        return (lambda _: True) if flags & re.DOTALL else (lambda character: character != "\n")
    if kind in (op.LITERAL, op.NOT_LITERAL):
        items, negated = [(op.LITERAL, argument)], kind is op.NOT_LITERAL
    elif kind is op.IN:
        negated = argument[0][0] is op.NEGATE
        items = argument[1:] if negated else argument
    else:
        return None
    # A class is compiled by Python itself, so that upper and lower case are treated as in `re`.
    text = f"[{'^' if negated else ''}{''.join(map(_write_item, items))}]"
    return _one_of(text, flags & (re.IGNORECASE | re.ASCII))


@cache
def _one_of(text: str, flags: int) -> _Test:
    compiled = re.compile(text, flags)
    return lru_cache(maxsize=512)(lambda character: compiled.fullmatch(character) is not None)


def _write_item(item: tuple[Any, Any]) -> str:
    kind, argument = item
    if kind is op.LITERAL:
        return rf"\U{argument:08x}"
    if kind is op.RANGE:
        return rf"\U{argument[0]:08x}-\U{argument[1]:08x}"
    return _CATEGORIES[argument]
