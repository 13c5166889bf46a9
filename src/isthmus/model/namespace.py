"""Namespaces (KIP-986): topics, groups or principals of a cluster whose names begin with a prefix; and maps of them.

A namespace is written as its prefix with a star behind, `local-*`, or as one whole name, `local-clicks`. The namespace
`*` of all names leaves out those that begin with an underscore, which are Kafka's and its tools' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, ClassVar, Final, Literal, Self, get_args

from isthmus.errors import ConfigError
from isthmus.model.naming import NAME_CHARACTERS, NAME_CHARACTERS_MAX, RESERVED_PREFIX
from isthmus.model.text.plain import Hidden, computed_field

NamespaceKind = Literal["topic", "group", "principal"]
KINDS: Final[tuple[NamespaceKind, ...]] = get_args(NamespaceKind)
_INTERNAL: Final = "_"
_STAR: Final = "*"
_TYPE: Final = ":"
"""The separator behind the type of a principal in its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A part of the names of one kind: those that begin with `prefix`, or with `is_exact` that one name.

    A namespace that was written with a star (`is_starred`) means a prefix even if a name is exactly that prefix.
    """

    kind: NamespaceKind = "topic"
    prefix: str
    is_exact: Annotated[bool, "exact"] = False
    is_starred: Hidden[bool] = field(default=False, compare=False, repr=False)

    @classmethod
    def of(cls, prefix: str, kind: NamespaceKind = "topic", *, is_exact: bool = False) -> Self:
        """Return a namespace as operators request it; one star at the end is not part of the prefix.

        :raises ConfigError: No name of that kind could be in it, or it would hold names of Kafka and Isthmus itself.
        """
        is_starred = not is_exact and prefix.endswith(_STAR)
        prefix = prefix.removesuffix(_STAR) if is_starred else prefix
        if is_exact and not prefix:
            raise ConfigError("a namespace of one name needs the name", hint="Leave --exact out for all names.")
        if kind == "topic":
            _check_topic(prefix)
        if kind == "principal" and _TYPE not in prefix:
            raise ConfigError(
                f"no principal's name begins with {prefix!r}",
                hint="Write its type too, as in User:team- or User:alice.",
            )
        return cls(kind=kind, prefix=prefix, is_exact=is_exact, is_starred=is_starred)

    def __str__(self) -> str:
        return self.prefix if self.is_exact else f"{self.prefix}{_STAR}"

    def holds(self, name: str) -> bool:
        """Return whether a name is in it."""
        if self.is_exact:
            return name == self.prefix
        return name.startswith(self.prefix) and (bool(self.prefix) or not name.startswith(_INTERNAL))

    def members(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of these names that are in it; sorted."""
        return tuple(sorted(filter(self.holds, names)))

    def beside(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the other names in it, if its prefix is itself a whole name: the user may have
        meant only that name.
        """
        if self.is_exact or self.is_starred:
            return ()
        members = self.members(names)
        return members[1:] if self.prefix in members else ()

    def overlaps(self, other: Namespace) -> bool:
        """Return whether a name could be in both."""
        if self.kind != other.kind:
            return False
        if self.is_exact or other.is_exact:
            one, rest = (self, other) if self.is_exact else (other, self)
            return rest.holds(one.prefix)
        longer, shorter = sorted((self.prefix, other.prefix), key=len, reverse=True)
        # Without a prefix it holds no name with an underscore in front.
        return longer.startswith(shorter) and (bool(shorter) or not longer.startswith(_INTERNAL))

    @computed_field(before="prefix")
    def written(self) -> Annotated[str, "namespace"]:
        return str(self)


def _check_topic(prefix: str) -> None:
    if NAME_CHARACTERS.fullmatch(prefix) is None or len(prefix) > NAME_CHARACTERS_MAX:
        raise ConfigError(
            f"no topic's name begins with {prefix!r}",
            hint=f"Names have at most {NAME_CHARACTERS_MAX} letters, digits, '.', '_' and '-'.",
        )
    if prefix.startswith(RESERVED_PREFIX):
        raise ConfigError(
            f"names that begin with {RESERVED_PREFIX} belong to Kafka and to Isthmus itself",
            hint="Choose another prefix.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceMap:
    """Two namespaces of which one follows the other.

    The target's follows the source's: names differ in the prefix only.
    """

    SCHEMA: ClassVar = "Attached"

    source: Annotated[Namespace, str]
    target: Annotated[Namespace, str]

    @classmethod
    def parse(cls, text: str, kind: NamespaceKind = "topic", *, is_exact: bool = False) -> Self:
        """Parse `local-:remote-`, or one prefix for both sides; `User:local-:User:remote-` for principals.

        :raises ConfigError: It is neither, or one of them can be no namespace.
        """
        parts = text.split(_TYPE)
        own = 2 if kind == "principal" else 1
        if len(parts) not in (own, 2 * own):
            example = "User:local-:User:remote-" if kind == "principal" else "local-:remote-"
            raise ConfigError(f"{text!r} is no map of namespaces", hint=f"Write it like {example}.")
        source, target = _TYPE.join(parts[:own]), _TYPE.join(parts[-own:])
        return cls(
            source=Namespace.of(source, kind, is_exact=is_exact), target=Namespace.of(target, kind, is_exact=is_exact)
        )

    def __str__(self) -> str:
        return f"{self.source}:{self.target}"

    @property
    def reversed(self) -> NamespaceMap:
        """Return the map for the way back."""
        return NamespaceMap(source=self.target, target=self.source)

    def leads_back(self, other: NamespaceMap) -> bool:
        """Return whether names that this map changes come back to themselves by the other, from its source to its
        target.
        """
        longest = max(self.source.prefix, other.target.prefix, key=len)
        return self.kind == other.kind and any(
            (there := self.to_target(name)) is not None and other.to_target(there) == name
            for name in (longest, f"{longest}x")
        )

    @computed_field(before="source")
    def kind(self) -> NamespaceKind:
        """The kind of names that it maps."""
        return self.source.kind

    def to_target(self, name: str) -> str | None:
        """Return the name at the target, `None` if it is not in the source's namespace."""
        return self.target.prefix + name[len(self.source.prefix) :] if self.source.holds(name) else None

    def to_source(self, name: str) -> str | None:
        """Return the name at the source, `None` if it is not in the target's namespace."""
        return self.source.prefix + name[len(self.target.prefix) :] if self.target.holds(name) else None

    @computed_field
    def is_exact(self) -> Annotated[bool, "exact"]:
        """Whether it maps single names."""
        return self.source.is_exact


@dataclass(frozen=True, slots=True)
class NamespaceNaming:
    """A naming by maps of namespaces of one kind that do not overlap on either side (`contradictions`)."""

    maps: tuple[NamespaceMap, ...] = ()

    def to_target(self, name: str) -> str | None:
        """Return the name at the target, `None` if no namespace of the source holds it."""
        return next((found for each in self.maps if (found := each.to_target(name)) is not None), None)

    def to_source(self, name: str) -> str | None:
        """Return the name at the source, `None` if no namespace of the target holds it."""
        return next((found for each in self.maps if (found := each.to_source(name)) is not None), None)


def contradictions(maps: Iterable[NamespaceMap]) -> Iterator[str]:
    """Yield the reasons why these maps cannot belong to one link, in words."""
    for one, other in combinations(maps, 2):
        for side in ("source", "target"):
            own, theirs = getattr(one, side), getattr(other, side)
            if own.overlaps(theirs):
                yield f"the {own.kind} namespaces {own} and {theirs} of the {side} overlap ({one} and {other})"
