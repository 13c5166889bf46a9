"""The content of a schema registry: schemas under ids, and versions of subjects that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from isthmus.model.naming import NameTemplate
from isthmus.model.schemas.forms import normal_form
from isthmus.model.schemas.gate import NO_GATE, SchemaGate
from isthmus.model.schemas.subjects import SubjectNaming

AVRO: Final = "AVRO"
"""The default type of a schema."""
IMPORT: Final = "IMPORT"
READWRITE: Final = "READWRITE"
INTERVAL_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """The primary registry, by its alias, the templates of subjects, by alias, and the topics that wait."""

    primary: str
    templates: Mapping[str, NameTemplate] = field(default_factory=dict)
    interval_s: float = INTERVAL_S
    gate: SchemaGate = NO_GATE

    def naming(self, alias: str) -> SubjectNaming:
        """Return the naming of the primary's subjects in another registry.

        :raises ConfigError: The other's template asks for what the primary's has not.
        """
        return SubjectNaming.of(self.templates.get(self.primary), self.templates.get(alias))


@dataclass(frozen=True, slots=True, order=True)
class SchemaReference:
    """Another version that a schema refers to, under the `name` that the schema has for it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The text of a schema, its language (`AVRO`, `JSON`, `PROTOBUF`), and its references."""

    text: str
    type: str = AVRO
    references: tuple[SchemaReference, ...] = ()

    def translate(self, naming: SubjectNaming) -> Schema:
        """Return it with the names of subjects in another registry."""
        references = (replace(each, subject=naming.translate(each.subject)) for each in self.references)
        return replace(self, references=tuple(references))

    def is_like(self, other: Schema) -> bool:
        """Whether both mean the same: each registry rewrites texts in its own way."""
        if self == other:
            return True
        if self.type != other.type or sorted(self.references) != sorted(other.references):
            return False
        return normal_form(self.type, self.text) == normal_form(other.type, other.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """One version of a subject and the id of its schema. If it `is_deleted` (softly), its schema is still found."""

    subject: str
    version: int
    id: int
    schema: Schema
    is_deleted: bool = False

    @property
    def key(self) -> VersionKey:
        return self.subject, self.version

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}"


VersionKey = tuple[str, int]
"""Subject and version."""


class DistributedVersion(NamedTuple):
    """A version that a registry received from the primary one, by its id, with its subject there."""

    version: int
    id: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSchemaVersion:
    """A version of a subject, and the name of the subject."""

    subject: str
    version: int
    id: int
    type: str
    references: list[str]
    compatibility: str | None
    is_deleted: bool
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryContents:
    """The whole content of a registry, at one moment.

    `compatibility` are the levels of subjects that have one of their own, `default_compatibility` is that of others.
    `mode` is `None` if the registry has none.
    """

    versions: Mapping[VersionKey, SchemaVersion] = field(default_factory=dict)
    compatibility: Mapping[str, str] = field(default_factory=dict)
    default_compatibility: str | None = None
    mode: str | None = None

    @property
    def subjects(self) -> tuple[str, ...]:
        """All subjects that have versions, by name."""
        return tuple(sorted({subject for subject, _ in self.versions}))

    def of(self, subject: str) -> tuple[SchemaVersion, ...]:
        """The versions of a subject in their order, deleted ones included."""
        return tuple(self.versions[key] for key in sorted(self.versions) if key[0] == subject)

    def list_named(self, logical: Callable[[str], str]) -> list[NamedSchemaVersion]:
        """Return all versions, with what people call their subjects."""
        return [
            NamedSchemaVersion(
                subject=each.subject,
                version=each.version,
                id=each.id,
                type=each.schema.type,
                references=[f"{one.subject} version {one.version}" for one in each.schema.references],
                compatibility=self.compatibility.get(each.subject),
                is_deleted=each.is_deleted,
                name=logical(each.subject),
            )
            for _, each in sorted(self.versions.items())
        ]
