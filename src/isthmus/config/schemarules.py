"""The rules for schema registries, and the values of the section about their distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from isthmus.config.reading.document import Path
from isthmus.config.reading.problems import Mistake
from isthmus.config.sections.schemas import SchemaRegistrySection, SchemasSection
from isthmus.config.taking import take
from isthmus.errors import ConfigError
from isthmus.model.naming import NameTemplate
from isthmus.model.schemas.content import SchemaSettings
from isthmus.model.schemas.gate import SchemaGate
from isthmus.model.schemas.subjects import SubjectNaming
from isthmus.model.selection import TopicPattern


def schema_rules(
    registries: Mapping[str, SchemaRegistrySection | None], section: SchemasSection | None
) -> Iterator[Mistake]:
    """Yield mistakes about registries and their distribution. `registries` has all aliases, `None` for one without."""
    for alias, registry in registries.items():
        if registry is not None:
            yield from _login(("clusters", alias, "schema_registry"), registry)
    if section is None:
        return
    if registries.get(section.primary) is None:
        yield Mistake(
            ("schemas", "primary"),
            f"is {section.primary}, which has no schema_registry",
            f"Give clusters.{section.primary}.schema_registry its url, or name another cluster.",
        )
    for alias, text in section.subjects.items():
        path = ("schemas", "subjects", alias)
        if registries.get(alias) is None:
            yield Mistake(path, "names a cluster without a schema_registry", "Remove it, or give that cluster one.")
        try:
            SubjectNaming.of(_template(section, section.primary), NameTemplate.parse(text))
        except ConfigError as error:
            yield Mistake(path, error.message, error.hint)


def _template(section: SchemasSection, alias: str) -> NameTemplate | None:
    text = section.subjects.get(alias)
    return None if text is None else NameTemplate.parse(text)


def schema_settings(section: SchemasSection | None) -> SchemaSettings | None:
    """Return the values of a checked section."""
    if section is None:
        return None
    templates = {alias: NameTemplate.parse(text) for alias, text in section.subjects.items()}
    gate = SchemaGate(
        values=tuple(map(TopicPattern.parse, section.gate.values)),
        keys=tuple(map(TopicPattern.parse, section.gate.keys)),
    )
    return take(SchemaSettings, section, templates=templates, gate=gate)


def _login(path: Path, registry: SchemaRegistrySection) -> Iterator[Mistake]:
    if (registry.username is None) != (registry.password is None):
        missing = "username" if registry.username is None else "password"
        yield Mistake((*path, missing), "is missing", "A login needs both username and password.")
    if registry.token is not None and registry.username is not None:
        yield Mistake((*path, "token"), "contradicts the login beside it", "Give a token, or username and password.")
    if registry.tls is not None and not registry.url.startswith("https:"):
        yield Mistake((*path, "tls"), "contradicts the url, which has no TLS", "Write https, or remove the section.")
