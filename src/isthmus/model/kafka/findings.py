"""The findings of an examination: a level, a subject, a message, and a remedy."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from isthmus.model.kafka.checks import CHECKS
from isthmus.model.text.plain import PlainValue, computed_field


class Level(enum.StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARN = "warn"
    """It works, but not as well as it could, or not in every case."""
    ERROR = "error"
    """A requested function cannot work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(PlainValue):
    """One finding; `code` is null where all is well.

    `subject` is a cluster, a link, a topic (`link/topic` or `cluster/topic`) or the host.
    """

    level: Level
    subject: str
    check: str
    message: str
    hint: str = ""

    @computed_field(before="level")
    def code(self) -> str | None:
        """The permanent name of the check, as in docs/errors.md; `None` if all is well."""
        return None if self.level is Level.OK else CHECKS[self.check].code
