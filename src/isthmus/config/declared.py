"""A declared link in the form of the configuration file."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from isthmus.config.reading.document import ConfigDocument, format_path
from isthmus.config.reading.keys import find_unknown
from isthmus.config.reading.problems import shape_problems, unknown_key
from isthmus.config.rules import section_problems
from isthmus.config.sections.schema import LinkSection
from isthmus.config.sections.section import Section
from isthmus.config.values import link_of
from isthmus.errors import ConfigError
from isthmus.model.cluster import Cluster
from isthmus.model.gateways.synchrony import SYNC
from isthmus.model.kafka.access import AccessPolicy
from isthmus.model.link import Link
from isthmus.model.links.declaration import Declaration
from isthmus.model.namespace import NamespaceNaming

_FIXED: Final = ("name", "source", "target", "topics.naming", "groups.naming", "mm2")
"""The fields that a declared link has in another form, or not at all."""
_WITH_DOTS: Final = ("properties", "transform.set")
"""The maps whose keys may hold dots."""


def declared_link(declaration: Declaration, source: Cluster, target: Cluster) -> Link:
    """Return the declared link, between its clusters.

    :raises ConfigError: Its settings cannot be used.
    """
    topics = tuple(each for each in declaration.maps if each.kind == "topic")
    groups = tuple(each for each in declaration.maps if each.kind == "group")
    principals = tuple(each for each in declaration.maps if each.kind == "principal")
    section = _section(declaration, source, target)
    link = link_of(section, source, target, Path.cwd())
    if link.transforms and declaration.mode == SYNC:
        raise ConfigError(
            f"link {declaration.name}: transform changes records on the way, and the link is synchronous: acknowledged "
            "records are found at the follower as they came",
            hint=f"isthmus link update {declaration.name} --mode async, or leave transform out.",
        )
    return replace(
        link,
        topics=replace(link.topics, naming=NamespaceNaming(topics)),
        groups=replace(link.groups, naming=NamespaceNaming(groups)),
        access=replace(link.access, principals=principals),
        mode="sync" if declaration.mode == SYNC else "async",
        mode_said=declaration.mode_said,
    )


def _section(declaration: Declaration, source: Cluster, target: Cluster) -> LinkSection:
    written: dict[str, Any] = {"name": declaration.name, "source": source.alias, "target": target.alias}
    kinds = {each.kind for each in declaration.maps}
    # All names in an attached namespace belong to the link.
    written["topics"] = {"include": ("*",)} if "topic" in kinds else {}
    written["groups"] = {"include": ("*",)} if "group" in kinds else {}
    # A follower has one writer, so principals may only read there, unless declared otherwise.
    written["access"] = {"policy": AccessPolicy.READ_ONLY.value} if "principal" in kinds else {}
    for key, value in declaration.settings.items():
        *way, last = _keys_in(key)
        place: Any = written
        for name in way:
            place = place.setdefault(name, {}) if isinstance(place, dict) else None
        if not isinstance(place, dict):
            raise ConfigError(
                f"link {declaration.name}: {key} is no key", hint="docs/configuration.md has all keys of links[]."
            )
        place[last] = as_written(value)
    document = ConfigDocument(declaration.name, written, {})
    try:
        section = LinkSection.model_validate(written)
    except ValidationError as error:
        problem = next(iter(shape_problems(error, LinkSection)))
        where = format_path(document.find_written(problem.path))
        raise ConfigError(
            f"link {declaration.name}: {where} {problem.message}",
            hint=problem.hint or "docs/configuration.md has all keys of links[].",
        ) from None
    for problem in section_problems((), section):
        where = format_path(document.find_written(problem.path))
        raise ConfigError(f"link {declaration.name}: {where} {problem.message}", hint=problem.hint)
    return section


def _keys_in(key: str) -> list[str]:
    """Return the keys on the way to a setting: those that people choose may hold dots."""
    for above in _WITH_DOTS:
        if key.startswith(f"{above}."):
            return [*above.split("."), key.removeprefix(f"{above}.")]
    return key.split(".")


def check_unset(unset: Iterable[str], root: type[Section] = LinkSection) -> None:
    """Check that a declared link, or the `root`, has these settings that go back to their defaults.

    :raises ConfigError: It knows no such key.
    """
    for key in unset:
        if (path := find_unknown(tuple(_keys_in(key)), root)) is not None:
            mistake = unknown_key(path, root)
            raise ConfigError(f"{format_path(path)} {mistake.message}", field=format_path(path), hint=mistake.hint)


def as_written(value: Any) -> Any:
    """Convert a value of JSON into the form that the file's parser returns."""
    if isinstance(value, list):
        return tuple(map(as_written, value))
    return {name: as_written(item) for name, item in value.items()} if isinstance(value, dict) else value


def as_said(value: Any) -> Any:
    """Convert a value of the file into JSON."""
    if isinstance(value, tuple):
        return [as_said(item) for item in value]
    return {name: as_said(item) for name, item in value.items()} if isinstance(value, Mapping) else value


def setting(text: str) -> tuple[str, Any]:
    """Parse `limits.bytes_per_s=50 MiB` into a key and its value, which is written as in YAML.

    :raises ConfigError: It is none, or a link that is declared does not have it.
    """
    key, value = parse_assignment(text, "limits.bytes_per_s='50 MiB'")
    check_key(key)
    return key, value


def parse_assignment(text: str, example: str) -> tuple[str, Any]:
    """Parse a key and its value, which is written as in YAML.

    :raises ConfigError: It is none.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"{text!r} sets nothing", hint=f"Write it like {example}.")
    try:
        parsed = yaml.safe_load(value)
        # Dates of YAML cannot be declared.
        json.dumps(parsed)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise ConfigError(f"the value of {key} is not YAML, or a date", hint="Put it in quotes.") from error
    return key, parsed


def changes_of(given: Mapping[str, Any], unset: Collection[str]) -> dict[str, Any]:
    """Return the statements about settings: given values, and `None` for those that go back to their defaults.

    :raises ConfigError: One is both.
    """
    check_not_both(given, unset)
    return {**given, **dict.fromkeys(unset)}


def check_not_both(given: Mapping[str, Any], unset: Collection[str]) -> None:
    """Check that no key is both set and reset.

    :raises ConfigError: Something is.
    """
    if twice := sorted(given.keys() & set(unset)):
        raise ConfigError(f"{twice[0]} is both set and unset", hint="Give one of both.")


def check_key(key: str) -> None:
    """Check that a declared link may have this setting.

    :raises ConfigError: It may not.
    """
    for fixed in _FIXED:
        if key == fixed or key.startswith(f"{fixed}."):
            raise ConfigError(
                f"{key} of a declared link cannot be set",
                hint="Its names come from the namespaces that are attached (isthmus link attach); for MirrorMaker 2's "
                "topics write the link into the file.",
            )


def check_settings(settings: Mapping[str, Any]) -> None:
    """Check that a declared link may have these settings.

    :raises ConfigError: One of them it may not.
    """
    for key, value in settings.items():
        check_key(key)
        if isinstance(value, Mapping):
            check_settings({f"{key}.{name}": each for name, each in value.items()})
