"""The sections about schema registries: their addresses, and the distribution of schemas from one to the others."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, SecretStr

from isthmus.config.sections.fields import Name, Pattern, Text, checked_url
from isthmus.config.sections.section import Section
from isthmus.config.sections.tls import TlsSection
from isthmus.model.schemas.content import INTERVAL_S

_LOGIN: Final = re.compile(r"https?://[^/]*@")


def _registry_url(value: str) -> str:
    if _LOGIN.match(value):
        raise ValueError("holds a login: give it as username and password beside the url, best by reference")
    return checked_url(value).rstrip("/")


RegistryUrl = Annotated[str, AfterValidator(_registry_url)]


class SchemaRegistrySection(Section):
    """A schema registry with the API of Confluent's: Confluent's own, Apicurio's compatible API, and others."""

    url: RegistryUrl = Field(
        description=(
            "Where it is, with a path if its API has one, as in `http://registry:8080/apis/ccompat/v7` of Apicurio."
        )
    )
    username: Text | None = Field(None, description="The user, for a login by name and password.")
    password: SecretStr | None = Field(None, description="The password of that user.")
    token: SecretStr | None = Field(None, description="A bearer token, in place of a login.")
    tls: TlsSection | None = Field(None, description="Certificates, for https.")


class SchemaGateSection(Section):
    """Topics, by their names at the target, of which no record comes before its schema is in the registry there."""

    values: tuple[Pattern, ...] = Field((), description="Topics whose values are written with schemas.")
    keys: tuple[Pattern, ...] = Field(
        (), description="Topics whose keys are: not those with numbers for keys, which look like ids."
    )


class SchemasSection(Section):
    """Schemas go from the primary registry to those of all other clusters that have one: same ids, same versions."""

    primary: Name = Field(description="The alias of the cluster whose registry people write to, and no other.")
    subjects: dict[Name, Text] = Field(
        {},
        description=(
            "By alias how the part of subjects before `-key` and `-value` is made there, as in "
            "`{tenant}-{instance}-{environment}-{topic}`. An alias without a template has the primary's names."
        ),
    )
    interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        INTERVAL_S, description="How often a run compares registries, in seconds."
    )
    gate: SchemaGateSection = Field(
        SchemaGateSection(),
        description="Topics of which no record comes to a cluster before its schema is in the registry there.",
    )
