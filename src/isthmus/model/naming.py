"""A reversible map between names at the source and names at the target: prefix for prefix (KIP-986)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """Names that begin with `source_prefix` begin with `target_prefix` at the target; others have no counterpart.

    With two empty prefixes every name stays as it is.
    """

    source_prefix: str = ""
    target_prefix: str = ""

    def to_target(self, name: str) -> str | None:
        """The name at the target, `None` where it has none."""
        return _moved(name, self.source_prefix, self.target_prefix)

    def to_source(self, name: str) -> str | None:
        """The name at the source, `None` where it has none."""
        return _moved(name, self.target_prefix, self.source_prefix)


def _moved(name: str, before: str, after: str) -> str | None:
    return after + name.removeprefix(before) if name.startswith(before) else None
