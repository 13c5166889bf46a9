"""The part of the configuration file about tools of MirrorMaker 2."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from isthmus.config.sections.fields import switch_text
from isthmus.config.sections.section import Section
from isthmus.model.mirrormaker import MirrorMakerSettings

_MM2: Final = MirrorMakerSettings()


class MirrorMakerSection(Section):
    """Topics in the formats of MirrorMaker 2, for its MirrorClient and RemoteClusterUtils: none by default.
    `true` alone is short for all of it, at the target (docs/mirrormaker.md).
    """

    offset_syncs: Annotated[Literal["off", "source", "target"], BeforeValidator(switch_text)] = Field(
        "off",
        description=(
            "At which cluster pairs of offsets are written: in mm2-offset-syncs.<target>.internal of the source, or in "
            "mm2-offset-syncs.<source>.internal of the target (offset-syncs.topic.location)."
        ),
    )
    offset_lag_max: Annotated[int, Field(ge=0)] = Field(
        _MM2.offset_lag_max,
        description="How many records a partition may be beyond its last pair before another is written.",
    )
    checkpoints: bool = Field(
        _MM2.checkpoints,
        description="Whether the groups' positions are written into <source>.checkpoints.internal of the target.",
    )
    checkpoints_interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        _MM2.checkpoints_interval_s, description="How often checkpoints that changed are written, in seconds."
    )
    heartbeats: bool = Field(
        _MM2.heartbeats,
        description=(
            "Whether heartbeats are written into topic heartbeats of the target, and those of the source are mirrored "
            "as <source>.heartbeats, whatever topics the link selects."
        ),
    )
    heartbeats_replication: bool = Field(
        _MM2.heartbeats_replication,
        description=(
            "Whether a link that writes heartbeats mirrors those of the source (heartbeats.replication.enabled). With "
            "false only those that it selects, as <source>.heartbeats too."
        ),
    )
    heartbeats_interval_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        _MM2.heartbeats_interval_s, description="How often a heartbeat is written, in seconds."
    )

    @model_validator(mode="before")
    @classmethod
    def _read_switch(cls, given: object) -> object:
        if not isinstance(given, bool):
            return given
        return {"offset_syncs": "target", "checkpoints": True, "heartbeats": True} if given else {}
