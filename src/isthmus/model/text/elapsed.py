"""How long ago something was, in words."""

from __future__ import annotations

from typing import Final

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_FINE_BELOW: Final = 10


def ago(age_s: float) -> str:
    """Format an age (s) as people say it: "12 s ago", "5 min ago", "1 h 20 min ago"."""
    whole_s = int(age_s)
    for place, (unit, length_s) in enumerate(_UNITS):
        if whole_s >= length_s:
            count, rest_s = divmod(whole_s, length_s)
            parts = [f"{count} {unit}"]
            # Add a second unit if the first alone would be coarse.
            if count < _FINE_BELOW and unit in ("d", "h"):
                finer, finer_s = _UNITS[place + 1]
                if rest_s >= finer_s:
                    parts.append(f"{rest_s // finer_s} {finer}")
            return f"{' '.join(parts)} ago"
    return "now"
