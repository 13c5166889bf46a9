"""Transforms of a flow: those that rename topics, and those that change or drop records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from isthmus.interop.deployment import Impact, Setting, Settings
from isthmus.interop.gathering import Gathering
from isthmus.interop.names import split_list

_TRANSFORMS: Final = "transforms"
_REGEX_ROUTER: Final = "RegexRouter"
_ROUTERS: Final = re.compile(r"Router$|^ExtractTopic|\$Topic$")
"""Classes that give a record another topic, by how their names end."""
_REGEX: Final = re.compile(r"\^?(?P<begin>(?:[A-Za-z0-9_.-]|\\[._-])*)\(\.[*+]\)\$?")
_TOKEN: Final = re.compile(r"\\?.")
_REPLACEMENT: Final = re.compile(r"(?P<begin>[A-Za-z0-9._-]*)(?:\$1|\$\{1\})")
_SAY: Final = "Set topics.naming: prefixes, a template, or a class of your own in Python (docs/naming.md)."
_RELY: Final = "If consumers at the target rely on it, have them do it, or keep MirrorMaker 2 for these topics."


@dataclass(frozen=True, slots=True)
class _Transform:
    name: str
    settings: Settings

    def value(self, key: str) -> str:
        return self.setting(key).value.strip()

    def setting(self, key: str) -> Setting:
        written = f"{_TRANSFORMS}.{self.name}.{key}"
        return self.settings.get(written, Setting("", written))

    @property
    def kind(self) -> str:
        return self.value("type").rpartition(".")[2]

    @property
    def is_router(self) -> bool:
        return _ROUTERS.search(self.kind) is not None


def find_prefix(prefix: str | None, settings: Settings, gathering: Gathering) -> tuple[str | None, str]:
    """Return the prefix of names at the target behind the transforms of a flow, or why it is unknown. `prefix` is the
    one before the transforms, `None` if unknown. Add a notice about each transform.
    """
    transforms = list(_transforms(settings))
    routers = [each for each in transforms if each.is_router]
    if len(routers) < len(transforms):
        why = "Isthmus changes no records and leaves none out"
        gathering.tell(Impact.LOST, settings[_TRANSFORMS], why, _RELY, value=settings[_TRANSFORMS].value)
    if not routers or prefix is None:
        return prefix, ""
    made = _rename_prefix(prefix, routers[0]) if len(routers) == 1 else None
    if made is not None:
        why = f"it gives topics of the target other names: {made}* instead of {prefix}*, as topics.naming sets"
        gathering.tell(Impact.CHANGED, routers[0].setting("type"), why, "See by isthmus plan that names are as before.")
        return made, ""
    why = f"Isthmus does not know how {', '.join(each.kind for each in routers)} names topics"
    for each in routers:
        gathering.tell(Impact.NEEDED, each.setting("type"), why, _SAY, value=each.value("type"))
    return None, why


def is_of_router(key: str, settings: Settings) -> bool:
    """Return whether a setting belongs to a transform that renames topics."""
    return any(each.is_router and key.startswith(f"{_TRANSFORMS}.{each.name}.") for each in _transforms(settings))


def _transforms(settings: Settings) -> Iterator[_Transform]:
    given = settings.get(_TRANSFORMS)
    for name in split_list(given.value) if given is not None else ():
        yield _Transform(name, settings)


def _rename_prefix(prefix: str, router: _Transform) -> str | None:
    """Return the prefix behind a router that replaces the begin of names by another one, `None` if it does not.

    It replaces if its expression matches the whole name (RegexRouter.java).
    """
    expression, replacement = (
        _REGEX.fullmatch(router.value("regex")),
        _REPLACEMENT.fullmatch(router.value("replacement")),
    )
    if router.kind != _REGEX_ROUTER or router.value("predicate") or expression is None or replacement is None:
        return None
    tokens = _TOKEN.findall(expression["begin"])
    # A bare dot stands for any character, and every token for one.
    is_prefix = len(tokens) <= len(prefix) and all(
        token in (".", prefix[at], f"\\{prefix[at]}") for at, token in enumerate(tokens)
    )
    return replacement["begin"] + prefix[len(tokens) :] if is_prefix else None
