"""Templates become answers: everything escaped, and no character in it that cannot be seen."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import Response

from isthmus.control.answers import TopicPlan
from isthmus.model.declaration import said_name
from isthmus.model.elapsed import ago
from isthmus.model.lane import LaneState
from isthmus.model.pauses import told_of
from isthmus.model.progress import LinkProgress
from isthmus.model.wording import counted
from isthmus.web.console.assets import asset

_TEXT_MAX: Final = 100_000
_RESULT_MAX: Final = 20_000
_NAME_MAX: Final = 20
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Controls, marks that turn the direction of text, halves of characters: names may hold them."""
_KEPT: Final = "\n\t"
UNKNOWN: Final = "\u2013"


def shown(value: Any) -> Any:
    """A value as it may stand in a page: no control characters, and no more of it than somebody reads."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return "" if value is None else value
    text = value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + "…"
    if text.isprintable():
        return str(text)
    return "".join(
        each if each in _KEPT or unicodedata.category(each) not in _HIDDEN else f"\\u{ord(each):04x}" for each in text
    )


def number(value: float | None) -> str:
    """A number for people; a dash for what is unknown."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 10 or float(value).is_integer() else f"{value:,.1f}"


def duration(seconds: float | None) -> str:
    """How long, in the largest unit that fits; a dash for what is unknown."""
    if seconds is None:
        return UNKNOWN
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} s" if seconds >= 10 or not seconds else f"{seconds:,.1f} s"


def _exact(value: str) -> Markup:
    """For fields of forms, whose value is sent back: every character as it is."""
    return escape(value.encode("utf-8", "replace").decode())


def _moment(at_ms: float) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


TONES: Final = {
    "good": {"ACTIVE", "IN_STEP", "TRANSLATED", "BY_OTHERS", "SUCCEEDED", "RUNNING"},
    "calm": {str(state) for state in LaneState if state.is_calm and state is not LaneState.ACTIVE}
    | {"STANDBY", "NOT_CONFIGURED", "CANCELLED", "GONE_AT_SOURCE"},
    "warn": {"DUE", "CATCHING_UP", "WAITING_FOR_MAP", "UNKNOWN"},
}


def _tone(state: str) -> str:
    """How a state is coloured; its word is always beside."""
    return next((tone for tone, states in TONES.items() if str(state) in states), "bad")


def _link_tone(link: LinkProgress) -> str:
    """How a link is coloured: topics in trouble show, whatever its own state is."""
    return "bad" if link.trouble else _tone(link.state)


def _short(text: str) -> str:
    """For the map: what fits on a line."""
    return text if len(text) <= _NAME_MAX else f"{text[: _NAME_MAX - 1]}…"


def _lag(link: LinkProgress) -> str:
    if link.lag_records >= 0:
        return number(link.lag_records)
    return f"at least {number(link.lag_records_min)}" if link.lag_records_min else UNKNOWN


def _actions(topics: Sequence[TopicPlan]) -> list[tuple[str, int]]:
    return sorted(Counter(str(topic.action) for topic in topics).items())


def _urgent(topics: Sequence[TopicPlan], count: int) -> list[TopicPlan]:
    """So many of them: first those of which something cannot be copied, then those that change something."""
    return sorted(topics, key=lambda each: (not each.has_refusals, not each.has_changes, each.topic))[:count]


def _segment(value: str) -> str:
    """A name as a part of an address."""
    return quote(value, safe="")


_pages = Environment(
    loader=PackageLoader("isthmus.web.console"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=shown,
    trim_blocks=True,
    lstrip_blocks=True,
)
_pages.filters.update(
    number=number, duration=duration, exact=_exact, moment=_moment, segment=_segment, counted=counted, ago=ago
)
_pages.globals["asset"] = asset
_pages.filters.update(
    tone=_tone,
    link_tone=_link_tone,
    short=_short,
    lag=_lag,
    actions=_actions,
    urgent=_urgent,
    known=lambda n: None if n < 0 else n,
)
_pages.filters["told_of"] = told_of
_pages.filters["said_name"] = said_name
_pages.filters["shortened"] = lambda text: text if len(text) <= _RESULT_MAX else text[:_RESULT_MAX] + "\n…"
_pages.filters["json"] = lambda value: json.dumps(value, indent=2, default=str)


def page(template: str, status: int = 200, **values: Any) -> Response:
    """A page, which nobody keeps: it is as things were in that moment."""
    body = _pages.get_template(template).render(**values)
    return Response(body.encode("utf-8", "replace"), status, {"Cache-Control": "no-store"}, "text/html; charset=utf-8")
