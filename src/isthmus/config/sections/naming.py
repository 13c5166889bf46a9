"""Converts the naming sections of the file into namings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from isthmus.config.sections.schema import NamesSection
from isthmus.config.sections.topics import NamingSection, TopicNamingSection
from isthmus.errors import ConfigError
from isthmus.model.naming import (
    GROUP_FIELD,
    TOPIC_FIELD,
    LogicalNames,
    MirrorMakerNaming,
    NameTemplate,
    Naming,
    PrefixNaming,
    PythonNaming,
    TemplateNaming,
)


def naming_of(
    section: TopicNamingSection, source_alias: str, target_alias: str, folder: Path, aliases: Iterable[str] = ()
) -> Naming:
    """Return the naming of topics between two clusters, of all those of the file. Modules are also searched in
    `folder`.

    :raises ConfigError: The section gives two ways, or one that cannot be used.
    """
    ways = [name for name in ("mm2", "template", "python") if getattr(section, name) is not None]
    if len(ways) + (_prefixes(section) != PrefixNaming()) > 1:
        raise ConfigError(
            "gives more than one way to name topics", hint="Choose one of prefixes, mm2, template and python."
        )
    if section.mm2 is not None:
        naming = _mirror_maker(section.mm2.separator, source_alias, target_alias)
        return replace(naming, aliases=frozenset(aliases))
    return group_naming_of(section) if section.python is None else _python(section.python, folder)


def group_naming_of(section: NamingSection) -> Naming:
    """Return the naming of a section by prefixes or templates, whatever else it has.

    :raises ConfigError: It gives both, or templates that cannot be used.
    """
    prefixes = _prefixes(section)
    if section.template is None:
        return prefixes
    if prefixes != PrefixNaming():
        raise ConfigError("gives more than one way to name groups", hint="Choose one of prefixes and template.")
    return TemplateNaming(
        source=NameTemplate.parse(section.template.source), target=NameTemplate.parse(section.template.target)
    )


def names_of(section: NamesSection) -> LogicalNames:
    """Return the names that users give the topics and groups of a cluster.

    :raises ConfigError: A template cannot be used, or has no place for that.
    """
    return LogicalNames(
        topics=_logical_template(section.topics, TOPIC_FIELD), groups=_logical_template(section.groups, GROUP_FIELD)
    )


def _logical_template(text: str | None, field: str) -> NameTemplate | None:
    if text is None:
        return None
    template = NameTemplate.parse(text)
    if field not in template.fields:
        raise ConfigError(f"{text!r} has no {{{field}}}", hint=f"Write {{{field}}} where users' own name stands.")
    return template


def _prefixes(section: NamingSection) -> PrefixNaming:
    return PrefixNaming(source_prefix=section.source_prefix, target_prefix=section.target_prefix)


def _mirror_maker(separator: str, source_alias: str, target_alias: str) -> MirrorMakerNaming:
    for alias in (source_alias, target_alias):
        if separator in alias:
            raise ConfigError(
                f"cannot be mm2: alias {alias} holds the separator {separator!r}: its end in a name would be ambiguous",
                hint="Give the cluster another alias, or mm2 another separator.",
            )
    return MirrorMakerNaming(source_alias=source_alias, target_alias=target_alias, separator=separator)


def _python(spec: str, folder: Path) -> PythonNaming:
    module, _, name = spec.partition(":")
    hint = "Write python: module:Class, of a module that Python finds or that lies beside the configuration file."
    before = list(sys.path)
    sys.path.append(str(folder))
    try:
        instance = getattr(import_module(module), name)()
    except Exception as error:
        raise ConfigError(f"names {spec}, which cannot be used: {type(error).__name__}: {error}", hint=hint) from error
    finally:
        sys.path[:] = before
    lacking = [each for each in ("to_target", "to_source") if not callable(getattr(instance, each, None))]
    if lacking:
        raise ConfigError(f"names {spec}, which has no {' and no '.join(lacking)}", hint=hint)
    return PythonNaming(spec=spec, instance=instance)
