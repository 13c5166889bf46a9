"""Files of assignments, as `kafka-reassign-partitions --reassignment-json-file` has them.

Either tool executes what the other one has planned.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from isthmus.errors import ConfigError
from isthmus.model.kafka.assignment import Assignment, Assignments
from isthmus.model.text.plain import plain

_HINT: Final = "The format is that of isthmus cluster reassign --plan, or of kafka-reassign-partitions --generate."


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    topic: Annotated[str, Field(min_length=1)]
    partition: Annotated[int, Field(ge=0)]
    replicas: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
    log_dirs: tuple[Literal["any"], ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> _Entry:
        if len(set(self.replicas)) != len(self.replicas):
            raise ValueError("names a broker twice")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    partitions: Annotated[tuple[_Entry, ...], Field(min_length=1)]


def read_assignments(text: str, name: str) -> tuple[Assignment, ...]:
    """Return the assignments of a file called `name`.

    :raises ConfigError: It is none of Kafka's, names a partition twice, or wants certain log directories.
    """
    try:
        file = _File.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(f"{name} is no file of assignments: {where}: {first['msg']}", hint=_HINT) from error
    found = tuple(Assignment(entry.topic, entry.partition, entry.replicas) for entry in file.partitions)
    twice = [key for key, count in Counter((one.topic, one.partition) for one in found).items() if count > 1]
    if twice:
        raise ConfigError(f"{name} names {twice[0][0]}-{twice[0][1]} twice", hint="Leave one of the two out.")
    return found


def write_assignments(assignments: Iterable[Assignment]) -> str:
    """Return the text of the file, as Kafka's own tool reads it."""
    return json.dumps(plain(Assignments.of(assignments)), indent=1) + "\n"
