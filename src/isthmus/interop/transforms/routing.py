"""Transforms of a flow that rename topics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from isthmus.interop.deployment import Impact
from isthmus.interop.gathering import Gathering
from isthmus.interop.transforms.steps import ChainStep

_REGEX_ROUTER: Final = "RegexRouter"
_ROUTERS: Final = re.compile(r"Router$|^ExtractTopic")
"""Classes that give a record another topic, by how their names end."""
_REGEX: Final = re.compile(r"\^?(?P<begin>(?:[A-Za-z0-9_.-]|\\[._-])*)\(\.[*+]\)\$?")
_TOKEN: Final = re.compile(r"\\?.")
_REPLACEMENT: Final = re.compile(r"(?P<begin>[A-Za-z0-9._-]*)(?:\$1|\$\{1\})(?P<end>(?![0-9])[A-Za-z0-9._-]*)")
_SAY: Final = "Set topics.naming: prefixes, a template, or a class of your own in Python (docs/naming.md)."
_BY_RECORD: Final = (
    "Include the topics and have them copied under one name each (topics.naming); consumers tell days apart by the "
    "times of records."
)


class TargetNames(NamedTuple):
    """Names at the target: those of the source between two texts."""

    begin: str
    end: str = ""


class Routing(NamedTuple):
    """The names of topics behind all steps, `None` if unknown with the reason `why`; `before` has them before each."""

    names: TargetNames | None
    why: str
    before: tuple[TargetNames | None, ...]


def is_router(step: ChainStep) -> bool:
    """Return whether a step gives records another topic."""
    return _ROUTERS.search(step.kind) is not None or step.value("type").endswith("$Topic")


def route(names: TargetNames | None, steps: Sequence[ChainStep], gathering: Gathering) -> Routing:
    """Return the names of topics behind the steps of a flow. `names` are those before them, `None` if unknown. Add a
    notice about each step that renames.
    """
    routers = [each for each in steps if is_router(each)]
    if not routers or names is None:
        return Routing(names, "", (names,) * len(steps))
    made = _rename(names, routers[0]) if len(routers) == 1 else None
    place = steps.index(routers[0])
    before = tuple(names if at <= place else made for at in range(len(steps)))
    if made is not None:
        others = f"{_show(made)} instead of {_show(names)}"
        why = f"it gives topics of the target other names: {others}, as topics.naming sets"
        gathering.tell(Impact.CHANGED, routers[0].setting("type"), why, "See by isthmus plan that names are as before.")
        return Routing(made, "", before)
    why = f"Isthmus does not know how {', '.join(each.kind for each in routers)} names topics"
    for each in routers:
        if each.kind == "TimestampRouter":
            told = "it gives records of one topic several topics, by their times: a link copies a topic into one"
            gathering.tell(Impact.NEEDED, each.setting("type"), told, _BY_RECORD, value=each.value("type"))
        else:
            gathering.tell(Impact.NEEDED, each.setting("type"), why, _SAY, value=each.value("type"))
    return Routing(None, why, before)


def _show(names: TargetNames) -> str:
    return f"{names.begin}*{names.end}"


def _rename(names: TargetNames, router: ChainStep) -> TargetNames | None:
    """Return the names behind a router that replaces the begin of all names by another one, and may add to their end;
    `None` if it does anything else.

    It replaces if its expression matches the whole name (RegexRouter.java).
    """
    expression, replacement = (
        _REGEX.fullmatch(router.value("regex")),
        _REPLACEMENT.fullmatch(router.value("replacement")),
    )
    if router.kind != _REGEX_ROUTER or router.value("predicate") or expression is None or replacement is None:
        return None
    prefix, tokens = names.begin, _TOKEN.findall(expression["begin"])
    # A bare dot stands for any character, and every token for one.
    is_prefix = len(tokens) <= len(prefix) and all(
        token in (".", prefix[at], f"\\{prefix[at]}") for at, token in enumerate(tokens)
    )
    return TargetNames(replacement["begin"] + prefix[len(tokens) :], replacement["end"]) if is_prefix else None
