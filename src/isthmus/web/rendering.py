"""Renders templates: everything escaped, and without invisible characters."""

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

from isthmus.fabric.answers import TopicPlan
from isthmus.model.lane import LaneState
from isthmus.model.links.declaration import said_name
from isthmus.model.links.pauses import told_of
from isthmus.model.links.progress import LinkProgress
from isthmus.model.text.elapsed import ago
from isthmus.model.text.wording import format_count
from isthmus.web.assets import asset

_TEXT_MAX: Final = 100_000
_RESULT_MAX: Final = 20_000
_NAME_MAX: Final = 20
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
"""Controls, marks that turn the direction of text, halves of characters: names may hold them."""
_KEPT: Final = "\n\t"
UNKNOWN: Final = "\u2013"


def format_value(value: Any) -> Any:
    """Return a value as it may stand in a page: without control characters, and shortened to a readable length."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return "" if value is None else value
    text = value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + "…"
    if text.isprintable():
        return str(text)
    return "".join(
        each if each in _KEPT or unicodedata.category(each) not in _HIDDEN else f"\\u{ord(each):04x}" for each in text
    )


def number(value: float | None) -> str:
    """Format a number for people; a dash if it is unknown."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 10 or float(value).is_integer() else f"{value:,.1f}"


def duration(seconds: float | None) -> str:
    """Format a duration in the largest unit that fits; a dash if it is unknown."""
    if seconds is None:
        return UNKNOWN
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:,.0f} s" if seconds >= 10 or not seconds else f"{seconds:,.1f} s"


def _exact(value: str) -> Markup:
    """Return a value for a form field, which is sent back: every character unchanged."""
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
    """Return the colour of a state; its word is always beside."""
    return next((tone for tone, states in TONES.items() if str(state) in states), "bad")


def _link_tone(link: LinkProgress) -> str:
    """Return the colour of a link: topics in trouble show, whatever its own state is."""
    return "bad" if link.trouble else _tone(link.state)


def _short(text: str) -> str:
    """Shorten a text to a line of the map."""
    return text if len(text) <= _NAME_MAX else f"{text[: _NAME_MAX - 1]}…"


def _lag(link: LinkProgress) -> str:
    if link.lag_records >= 0:
        return number(link.lag_records)
    return f"at least {number(link.lag_records_min)}" if link.lag_records_min else UNKNOWN


def _actions(topics: Sequence[TopicPlan]) -> list[tuple[str, int]]:
    return sorted(Counter(str(topic.action) for topic in topics).items())


def _urgent(topics: Sequence[TopicPlan], count: int) -> list[TopicPlan]:
    """Return this many of them: first those that cannot be copied, then those with changes."""
    return sorted(topics, key=lambda each: (not each.has_refusals, not each.has_changes, each.topic))[:count]


def _segment(value: str) -> str:
    """Encode a name as a part of an address."""
    return quote(value, safe="")


_pages = Environment(
    loader=PackageLoader("isthmus.web.console"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=format_value,
    trim_blocks=True,
    lstrip_blocks=True,
)
_pages.filters.update(
    number=number, duration=duration, exact=_exact, moment=_moment, segment=_segment, counted=format_count, ago=ago
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
    """Return a page that must not be cached: it shows this moment."""
    body = _pages.get_template(template).render(**values)
    return Response(body.encode("utf-8", "replace"), status, {"Cache-Control": "no-store"}, "text/html; charset=utf-8")
