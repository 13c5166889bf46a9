"""How topics of a run are called at each side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "soak."
"""All topics of the source that are mirrored are called so; nothing else is."""
Naming = Literal["identity", "prefix", "mm2"]
TARGET_PREFIXES: Final[dict[Naming, str]] = {"identity": PREFIX, "prefix": "copies.", "mm2": f"source.{PREFIX}"}


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one cluster: `prefix` stands there in the place of the source's."""

    prefix: str = PREFIX

    def called(self, topic: str) -> str:
        """What a topic of the source is called here; others keep their names."""
        return self.prefix + topic.removeprefix(PREFIX) if topic.startswith(PREFIX) else topic

    def at_source(self, name: str) -> str:
        """What a topic from here is called at the source."""
        return PREFIX + name.removeprefix(self.prefix) if name.startswith(self.prefix) else name


AS_AT_SOURCE: Final = Names()
