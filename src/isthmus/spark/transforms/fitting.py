"""Which of several schemas go together: those that do not are found by halves, and no other one is left out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, TypeVar

from isthmus.errors import ConfigError

_CHOICES_MAX: Final = 1_000
_T = TypeVar("_T")
_Left = list[tuple[_T, ConfigError]]
"""What does not go with the others, each with the reason."""


def _take(require: Callable[[list[_T]], object], taken: list[_T], more: list[_T]) -> tuple[list[_T], _Left[_T]]:
    """Return what was taken with all of `more` that go with it, and the others. A ConfigError of `require` says that
    some do not go together.
    """
    if not more:
        return taken, []
    try:
        require([*taken, *more])
    except ConfigError as error:
        if len(more) == 1:
            return taken, [(more[0], error)]
    else:
        return [*taken, *more], []
    half = len(more) // 2
    taken, left = _take(require, taken, more[:half])
    taken, also = _take(require, taken, more[half:])
    return taken, [*left, *also]


def find_fitting(
    require: Callable[[list[_T]], object], parts: Sequence[Sequence[_T]], settled: Collection[_T]
) -> tuple[list[_T], _Left[_T]]:
    """Return the most that goes together, settled ones first, and the others. Of each part there has to be one, the
    oldest come first.

    :raises ConfigError: Nothing goes together.
    """
    every = list(dict.fromkeys(each for turn in itertools.zip_longest(*parts) for each in turn if each is not None))
    base, left = _take(require, [], [each for each in every if each in settled])
    if not base:
        base, left = _find_base(require, parts, every), []
    known = {*base, *(each for each, _ in left)}
    taken, also = _take(require, base, [each for each in every if each not in known])
    # What a schema lacks may be in later ones.
    return _take(require, taken, [each for each, _ in (*left, *also)])


def _find_base(require: Callable[[list[_T]], object], parts: Sequence[Sequence[_T]], every: list[_T]) -> list[_T]:
    """Return some that go together, where that is not clear of any.

    :raises ConfigError: None do. It says why not all of them.
    """
    failure = ConfigError("there is nothing to choose from")
    for each in _bases(parts, every):
        try:
            require(each)
        except ConfigError as error:
            failure = error if each == every else failure
        else:
            return each
    raise failure


def _bases(parts: Sequence[Sequence[_T]], every: list[_T]) -> Iterator[list[_T]]:
    """Yield the oldest ones, which suffice if bad ones came later; all but one, if one is bad; and one of each part, if
    those need no others.
    """
    yield from (every[:count] for count in range(1, len(every) + 1))
    yield from ([*every[:place], *every[place + 1 :]] for place in range(len(every)))
    chosen = itertools.islice(itertools.product(*parts), _CHOICES_MAX)
    yield from (list(dict.fromkeys(each)) for each in chosen)
