"""Values are built from sections by the names of their fields."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from isthmus.config.sections.section import Section
from isthmus.config.taking import take
from isthmus.model.cluster import Secret


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Paint(Section):
    """A section as the file has it."""

    colour: str = "red"
    recipe: SecretStr | None = None
    sample_file: str | None = None
    coats: int = 2


@dataclass(frozen=True, kw_only=True)
class Wall:
    """A value made of it."""

    name: str
    colour: Colour = Colour.RED
    recipe: Secret | None = None
    sample_file: str | None = None
    coats: int = 1
    width: float = 1.0


def test_fields_of_the_same_name_are_taken_and_converted() -> None:
    """Enums, secrets and paths as the value has them; a field that the section lacks keeps its default."""
    section = Paint(colour="blue", recipe=SecretStr("egg"), sample_file="a/b.png", coats=3)
    found = take(Wall, section, Path("/etc"), name="north")
    assert found == Wall(
        name="north", colour=Colour.BLUE, recipe=Secret("egg"), sample_file="/etc/a/b.png", coats=3, width=1.0
    )
    assert type(found.colour) is Colour


def test_what_is_given_counts() -> None:
    """Given fields stand, whatever the section has."""
    assert take(Wall, Paint(colour="blue"), name="south", colour=Colour.RED).colour is Colour.RED


def test_a_value_can_be_the_source() -> None:
    """Another dataclass serves as a section does."""
    wall = Wall(name="east", coats=5)
    assert take(Wall, wall, name="west") == Wall(name="west", coats=5)


def test_a_field_that_nobody_has_is_an_error() -> None:
    """A required field is never left to chance."""
    with pytest.raises(TypeError, match="name"):
        take(Wall, Paint())


def test_a_path_needs_a_folder() -> None:
    """Where it starts is never left to the folder in which a program happens to run."""
    with pytest.raises(TypeError, match="has no start"):
        take(Wall, Paint(sample_file="a.png"), name="north")
