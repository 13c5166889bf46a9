"""The findings of an examination: a level, a subject, a message, and a remedy."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, TypedDict

from isthmus.model.kafka.checks import CHECKS


class Level(enum.StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"
    """It works, but not as well as it could, or not in every case."""
    ERROR = "error"
    """A requested function cannot work."""


class FindingJson(TypedDict):
    """One finding; `code` is null where all is well."""

    code: str | None
    level: Annotated[str, Level]
    subject: str
    check: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. `subject` is a cluster, a link, a topic (`link/topic` or `cluster/topic`) or the host."""

    level: Level
    subject: str
    check: str
    message: str
    hint: str = ""

    @property
    def code(self) -> str | None:
        """The permanent name of the check, as in docs/errors.md; `None` if all is well."""
        return None if self.level is Level.OK else CHECKS[self.check].code

    def as_dict(self) -> FindingJson:
        """Plain values under stable names."""
        return {
            "code": self.code,
            "level": str(self.level),
            "subject": self.subject,
            "check": self.check,
            "message": self.message,
            "hint": self.hint,
        }
