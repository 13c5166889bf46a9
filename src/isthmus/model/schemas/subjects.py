"""Names of subjects, under which schemas are registered: made of topics' names on each cluster, by its own template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from isthmus.model.naming import NameTemplate, TemplateNaming

SUFFIXES: Final = ("-key", "-value")
"""The suffixes that TopicNameStrategy adds to the name of a topic."""
_LOGICAL: Final = "topic"
_CONTEXT: Final = ":."


@dataclass(frozen=True, slots=True)
class SubjectNaming:
    """Subjects of the primary registry, and their names in another one.

    Subjects keep their end: `-key`, `-value`, or the name of a record. A subject that does not fit the template of the
    primary contains no topic, as the name of a record alone, and has the same name everywhere.
    """

    naming: TemplateNaming | None = None

    @classmethod
    def of(cls, primary: NameTemplate | None, other: NameTemplate | None) -> SubjectNaming:
        """Return the naming between two registries; without a template of its own the other has the primary's names.

        :raises ConfigError: The other's template has a placeholder that the primary's has not, or the primary has none.
        """
        if other is None or other == primary:
            return cls()
        return cls(TemplateNaming(source=primary or NameTemplate.parse("{topic}"), target=other))

    def translate(self, subject: str) -> str:
        """Return the name of a primary's subject in the other registry."""
        if self.naming is None:
            return subject
        stem, suffix = _apart(subject)
        found = self.naming.to_target(stem)
        return subject if found is None else found + suffix


def context_of(subject: str) -> str:
    """Return the context of a subject as names of subjects begin with it, `:.CONTEXT:`; "" for the default one. An id
    means another schema in each context of a registry.
    """
    if not subject.startswith(_CONTEXT):
        return ""
    name, found, _ = subject[len(_CONTEXT) :].partition(":")
    return f"{_CONTEXT}{name}:" if found and name else ""


def qualify(subject: str, context: str) -> str:
    """Return a subject that another one of this context refers to: without a context of its own it is of the same."""
    return subject if subject.startswith(_CONTEXT) else context + subject


def logical_name(subject: str, template: NameTemplate | None) -> str:
    """Return the topic by its users' name: the `{topic}` of the template; without a template the subject without its
    end.
    """
    stem, _ = _apart(subject)
    values = None if template is None else template.values_of(stem)
    return stem if values is None else values.get(_LOGICAL, stem)


def _apart(subject: str) -> tuple[str, str]:
    suffix = next((each for each in SUFFIXES if subject.endswith(each) and subject != each), "")
    return subject.removesuffix(suffix), suffix
