"""The base of every section of the configuration file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, model_validator


class Section(BaseModel):
    """A part of the file: unknown keys are refused, and nothing is converted behind one's back."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_empty(cls, given: object) -> object:
        # A key without a value (`spark:`) counts as not given. An unknown key still has to be seen.
        if not isinstance(given, dict):
            return given
        return {key: value for key, value in given.items() if value is not None or key not in cls.model_fields}
