"""The totals of all links, in a few short lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from isthmus.model.links.progress import LinkProgress
from isthmus.model.text.wording import format_count


def totals(links: Sequence[LinkProgress]) -> tuple[str, str, str]:
    """Return the number of links and topics by state, and the lag of all of them, a line each.

    If the lag of some is unknown, the total is the least that it can be; an unknown rate is left out.
    """
    topics = [topic for link in links for topic in link.topics]
    is_known = all(link.lag_records >= 0 for link in links)
    lag = sum(link.lag_records_min for link in links)
    rates = [p.records_per_s for topic in topics for p in topic.partitions if p.records_per_s is not None]
    problems = sum(sum(link.trouble.values()) for link in links)
    parts = [f"lag {'' if is_known else 'at least '}{format_count(lag, 'record')}"]
    parts += [f"{sum(rates):,.0f} records/s"] if rates else []
    parts += [format_count(problems, "topic has a problem", "topics have a problem")] if problems else []
    return (
        _by_state(format_count(len(links), "link"), (str(link.state) for link in links)),
        _by_state(format_count(len(topics), "topic"), (str(topic.state) for topic in topics)),
        ", ".join(parts),
    )


def _by_state(counted_things: str, states: Iterable[str]) -> str:
    found = Counter(states)
    return f"{counted_things}: " + (", ".join(f"{count:,} {state}" for state, count in found.most_common()) or "none")
