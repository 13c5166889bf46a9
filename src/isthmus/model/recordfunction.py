"""A Python function that changes batches of records, and the source of its modules as a run has read it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final, Self

from isthmus.errors import ConfigError

_FUNCTION: Final = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*(?:\.[^\W\d]\w*)*)")


class FunctionFolder(str):
    """A folder that `sys.path` has for what functions import while they run. No function of another folder is searched
    in it.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """The text of a module. `path` is the file where it was read, "" for a package without one, and `locations` are the
    folders of a package.
    """

    name: str
    path: str
    text: str
    is_package: bool
    locations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """The modules of a function: what another `digest` belongs to is another source. `missing` are names that its
    import statements may mean, and that no file was found for.
    """

    digest: str
    modules: tuple[ModuleSource, ...] = field(repr=False, compare=False)
    missing: frozenset[str] = field(default=frozenset(), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class RecordFunction:
    """A Python function. `folder` is that of the configuration file, where its module is searched as well. Without a
    `source` whoever calls it imports what is there.
    """

    module: str
    name: str
    folder: str = ""
    source: FunctionSource | None = None

    @classmethod
    def parse(cls, text: str, folder: str = "") -> Self:
        """Parse `module:function`; `str` gives it back.

        :raises ConfigError: It is no such name.
        """
        found = _FUNCTION.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"{text!r} names no Python function",
                hint="Write module:function, as in rules:clean or company.rules:clean.",
            )
        return cls(found[1], found[2], folder)

    def with_source(self, source: FunctionSource) -> Self:
        """Return the function as this source has it."""
        return replace(self, source=source)

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"
