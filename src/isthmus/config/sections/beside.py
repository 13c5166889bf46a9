"""The sections beside those of the data: the other things that a link keeps the same, and the reports of a run."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from isthmus.config.sections.fields import (
    Address,
    Pattern,
    PrincipalPatternText,
    PropertyPatternText,
    Size,
    Text,
    switch_text,
)
from isthmus.config.sections.section import Section
from isthmus.model.configsettings import OF_EACH_CLUSTER, ConfigSettings
from isthmus.model.kafka.access import AccessSettings
from isthmus.model.process.logsettings import LogSettings

_CONFIGS: Final = ConfigSettings()
_ACCESS: Final = AccessSettings()


class ConfigsSection(Section):
    """How the configurations of target topics follow those of the source (docs/configs.md)."""

    sync: bool | None = Field(
        _CONFIGS.sync,
        description=(
            "Whether they follow. Without it, those of topics that have the source's offsets do, and those of mapped "
            "topics do not."
        ),
    )
    exclude: tuple[PropertyPatternText, ...] = Field(
        OF_EACH_CLUSTER,
        description=(
            "Configurations that are each cluster's own business: names, prefixes with a trailing *, or regular "
            "expressions between slashes."
        ),
    )
    keep: dict[Pattern, tuple[PropertyPatternText, ...]] = Field(
        {},
        description=(
            "By topic, named as at the source or by a pattern, the configurations that stay as they are at the target, "
            'as in `{"*": ["retention.*"], "orders": ["segment.bytes"]}`.'
        ),
    )
    use_defaults_from: Literal["target", "source"] = Field(
        _CONFIGS.use_defaults_from,
        description=(
            "The treatment of a configuration that the source does not set: target removes it at the target, where the "
            "brokers' default counts then; source sets it to the value the source has by default."
        ),
    )
    interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        _CONFIGS.interval_s, description="How often both sides are compared, in seconds."
    )


class AccessSection(Section):
    """Which access rules of the source are made at the target (docs/access.md)."""

    policy: Annotated[Literal["off", "read-only", "full"], BeforeValidator(switch_text)] = Field(
        "off",
        description=(
            "off carries none; read-only those about reading the mirrored topics, with ALL turned into READ; full all "
            "rules about mirrored topics and carried groups, for a target that is to take over."
        ),
    )
    exclude_principals: tuple[PrincipalPatternText, ...] = Field(
        (),
        description=(
            "Principals whose rules are left out, such as `User:alice`: names, prefixes with a trailing *, or regular "
            "expressions between slashes."
        ),
    )
    interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        _ACCESS.interval_s, description="How often both sides are compared, in seconds."
    )


class LogSection(Section):
    """The log of commands, kept in a file of JSON lines."""

    file: Text | None = Field(
        None, description="The file. Without it, nothing is kept: warnings are on stderr, more of them with -v and -vv."
    )
    size: Size = Field(LogSettings().size_bytes, description="How large it may grow before a fresh one is begun.")
    keep: Annotated[int, Field(ge=0, le=1000)] = Field(
        LogSettings().keep, description="How many that were full are kept beside it, as FILE.1, FILE.2 and so on."
    )


class MetricsSection(Section):
    """The reports of a run over HTTP: metrics for Prometheus, and health (docs/metrics.md)."""

    listen: Address | None = Field(
        None, description="Where it listens, as host:port such as `127.0.0.1:9464`. Without it, nowhere."
    )
    any_interface: bool = Field(
        False,
        description="Whether it may listen at an address that other hosts reach: there is no login and no TLS.",
    )
    partitions: bool = Field(
        False, description="Whether there are series of single partitions too, for 10,000 of them at most."
    )
