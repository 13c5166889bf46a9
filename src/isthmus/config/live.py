"""Settings of a link of the file that can be changed while it runs, without the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from isthmus.config.reading.document import format_path
from isthmus.config.reading.problems import shape_problems
from isthmus.config.sections.mirrormaker import MirrorMakerSection
from isthmus.config.sections.schema import LimitsSection
from isthmus.config.sections.section import Section
from isthmus.config.values import limits_of, mirror_maker_of
from isthmus.errors import ConfigError
from isthmus.model.link import Limits, Link
from isthmus.model.mirrormaker import MirrorMakerSettings, MirrorMakerTopics
from isthmus.model.naming import MirrorMakerNaming

SETTABLE: Final = (
    "limits.bytes_per_s",
    "limits.bytes_in_flight",
    "mm2.offset_syncs",
    "mm2.offset_lag_max",
    "mm2.checkpoints",
    "mm2.checkpoints_interval_s",
    "mm2.heartbeats_interval_s",
)
"""The keys of links[] that can be set live. Those of heartbeats cannot: they decide which topics a link mirrors, and
its neighbours leave to it.
"""

_SectionT = TypeVar("_SectionT", bound=Section)


def check_settable(link: str, key: str) -> None:
    """Check that a key of links[] can be set while a link of the file runs.

    :raises ConfigError: It cannot.
    """
    if key not in SETTABLE:
        raise ConfigError(
            f"link {link}: {key} cannot be set beside the file",
            hint=f"These can: {', '.join(SETTABLE)}. All others are changed in the file, which isthmus run follows.",
        )


def in_plain_values(link: Link) -> dict[str, Any]:
    """Return a link's value for each of the keys that can be set, as JSON has it."""
    return {f"{name}.{key}": value for name, each in _parts(link) for key, value in each.items() if _is_one(name, key)}


def with_settings(link: Link, settings: Mapping[str, Any]) -> Link:
    """Return the link with these settings in place of its own, by dotted key; null for the default.

    :raises ConfigError: A key cannot be set, or a value is not possible.
    """
    sections: dict[str, dict[str, Any]] = dict(_parts(link))
    for key, value in settings.items():
        check_settable(link.name, key)
        name, _, last = key.partition(".")
        sections[name][last] = value
    limits = limits_of(_section(link.name, "limits", LimitsSection, sections["limits"]))
    mm2 = mirror_maker_of(_section(link.name, "mm2", MirrorMakerSection, sections["mm2"]))
    if limits == link.limits and mm2 == link.mm2:
        return link
    return replace(link, limits=limits, mm2=mm2, topics=replace(link.topics, mirror_maker=_topics(link, mm2)))


def _parts(link: Link) -> list[tuple[str, dict[str, Any]]]:
    return [("limits", _values(link.limits)), ("mm2", _values(link.mm2))]


def _values(part: Limits | MirrorMakerSettings) -> dict[str, Any]:
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return {name: str(value) if isinstance(value, str) else value for name, value in values.items()}


def _is_one(name: str, key: str) -> bool:
    return f"{name}.{key}" in SETTABLE


def _section(link: str, name: str, kind: type[_SectionT], values: Mapping[str, Any]) -> _SectionT:
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        problem = next(iter(shape_problems(error, kind)))
        where = format_path((name, *problem.path))
        raise ConfigError(
            f"link {link}: {where} {problem.message}",
            hint=problem.hint or f"docs/configuration.md has all keys of links[].{name}.",
        ) from None


def _topics(link: Link, mm2: MirrorMakerSettings) -> MirrorMakerTopics | None:
    if not mm2.is_on:
        return None
    for alias in (link.source.alias, link.target.alias):
        if "." in alias and not isinstance(link.topics.naming, MirrorMakerNaming):
            raise ConfigError(
                f"link {link.name}: mm2 cannot be: alias {alias} holds a dot",
                hint="Give the cluster another alias, or name topics by mm2 with another separator.",
            )
    return link.topics.mirror_maker or MirrorMakerTopics(names=link.mm2_names)
