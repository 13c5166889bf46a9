"""The sections of what a link keeps alike beside its data."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from isthmus.config.fields import Pattern, PropertyPatternText
from isthmus.config.section import Section
from isthmus.model.configsettings import OF_EACH_CLUSTER, ConfigSettings

_CONFIGS: Final = ConfigSettings()


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
            "What a configuration becomes that the source does not set: target removes it at the target, where the "
            "brokers' default counts then; source sets it to the value the source has by default."
        ),
    )
    interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        _CONFIGS.interval_s, description="How often both sides are compared, in seconds."
    )
